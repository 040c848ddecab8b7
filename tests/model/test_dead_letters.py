"""The one dialect of dead letters: what is written is read, and nothing of the record is lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qanat.model.dead_letters import Origin, parse_letter

NUMBERS = st.integers(0, 2**63 - 1)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
HEADERS = st.lists(st.tuples(st.sampled_from(["trace", "x-exception", "__dlq.errors.topic"]), st.none() | st.binary()))
ORIGINS = st.builds(
    Origin,
    TEXTS.filter(bool),
    st.integers(0, 2**31 - 1),
    NUMBERS,
    TEXTS,
    st.none() | TEXTS,
    st.none() | NUMBERS,
    st.none() | NUMBERS,
)
HERE = Origin("orders", 3, 17, "rejected", "workers", 5, 1_700_000_000_000)


@given(ORIGINS, HEADERS.map(lambda rows: tuple(row for row in rows if row[0] != "__dlq.errors.topic")))
def test_a_letter_is_read_as_it_was_written(origin: Origin, own: tuple[tuple[str, bytes | None], ...]) -> None:
    letter = parse_letter((*own, *origin.headers()))
    assert letter is not None
    assert (letter.origin, letter.headers) == (origin, own)


def test_a_letter_of_a_letter_is_restored_as_the_letter_that_it_was() -> None:
    inner = (("trace", b"1"), *HERE.headers())
    outer = parse_letter((*inner, *Origin("orders.dead", 0, 2, "rejected", "repair", 1, 5).headers()))
    assert outer is not None
    assert (outer.origin.topic, outer.headers) == ("orders.dead", inner)
    again = parse_letter(outer.headers)
    assert again is not None
    assert (again.origin, again.headers) == (HERE, (("trace", b"1"),))


def test_a_producer_cannot_forge_the_origin() -> None:
    forged = (("__dlq.errors.topic", b"payroll"), ("__dlq.errors.offset", b"1"))
    letter = parse_letter((*forged, *HERE.headers()))
    assert letter is not None
    assert (letter.origin.topic, letter.headers) == ("orders", forged)


def test_a_letter_of_a_former_release_of_spark_is_read() -> None:
    former = (
        ("trace", b"1"),
        ("x-original-topic", b"metrics"),
        ("x-original-partition", b"1"),
        ("x-original-offset", b"42"),
        ("x-exception", b"late by 11 minutes"),
    )
    letter = parse_letter(former)
    assert letter is not None
    assert letter.origin == Origin("metrics", 1, 42, "late by 11 minutes")
    assert letter.headers == (("trace", b"1"),)


@pytest.mark.parametrize(
    "headers",
    [
        (),
        (("trace", b"1"),),
        (("__dlq.errors.topic", b"orders"), ("__dlq.errors.partition", b"0")),
        (("__dlq.errors.topic", b""), ("__dlq.errors.partition", b"0"), ("__dlq.errors.offset", b"0")),
        (("__dlq.errors.topic", b"orders"), ("__dlq.errors.partition", b"-1"), ("__dlq.errors.offset", b"0")),
        (("__dlq.errors.topic", None), ("__dlq.errors.partition", b"0"), ("__dlq.errors.offset", b"0")),
        (("__dlq.errors.topic", b"orders"), ("__dlq.errors.partition", b"0"), ("__dlq.errors.offset", b"9" * 40)),
    ],
)
def test_a_record_that_does_not_say_where_it_comes_from_is_no_letter(
    headers: tuple[tuple[str, bytes | None], ...],
) -> None:
    assert parse_letter(headers) is None
