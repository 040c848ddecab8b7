"""The text that Prometheus reads, judged by Prometheus' own parser."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.parser import text_string_to_metric_families

from qanat.telemetry.exposition import Family, Kind, Sample
from qanat.telemetry.histogram import POWERS_OF_TWO, SECONDS, Histogram


def parsed(kind: Kind, samples: Iterable[Sample], meaning: str = "What it is.") -> dict[tuple[str, ...], float]:
    """Samples as the parser reads them, by name and sorted labels."""
    name = "m_total" if kind == "counter" else "m"
    family: Family[None] = Family(name, kind, meaning, (), lambda _: samples)
    (found,) = text_string_to_metric_families("".join(family.lines(None)))
    assert (found.type, found.documentation) == (kind, meaning)
    return {
        (one.name, *(f"{name}={value}" for name, value in sorted(one.labels.items()))): one.value
        for one in found.samples
    }


def test_numbers_and_labels_come_through() -> None:
    samples = [Sample({"api": "Fetch"}, 3), Sample({"api": "Produce"}, 0.25)]

    assert parsed("gauge", samples) == {("m", "api=Fetch"): 3, ("m", "api=Produce"): 0.25}
    assert parsed("counter", [Sample({}, 7)]) == {("m_total",): 7}


def test_a_family_that_takes_long_lets_others_have_their_turn_between_its_samples() -> None:
    samples = [None, Sample({"a": "1"}, 1), None, None, Sample({"a": "2"}, 2)]
    family: Family[None] = Family("m", "gauge", "What it is.", ("a",), lambda _: samples)

    lines = list(family.lines(None))
    assert lines.count("") == 3
    assert [line for line in lines if line][2:] == ['m{a="1"} 1\n', 'm{a="2"} 2\n']


def test_odd_labels_and_meanings_are_escaped() -> None:
    odd = 'a "b"\\\n{c}'

    assert parsed("gauge", [Sample({"l": odd}, 1)], 'backslash \\ and "quotes"') == {("m", f"l={odd}"): 1}


def test_a_histogram_is_added_up_from_bucket_to_bucket() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 9.0):
        histogram.observe(value)

    assert parsed("histogram", [Sample({"api": "Fetch"}, histogram)]) == {
        ("m_bucket", "api=Fetch", "le=1.0"): 2,
        ("m_bucket", "api=Fetch", "le=2.0"): 3,
        ("m_bucket", "api=Fetch", "le=+Inf"): 4,
        ("m_sum", "api=Fetch"): 12.0,
        ("m_count", "api=Fetch"): 4,
    }


def test_bounds_grow() -> None:
    assert list(SECONDS) == sorted(set(SECONDS))
    assert list(POWERS_OF_TWO) == sorted(set(POWERS_OF_TWO))
