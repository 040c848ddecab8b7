"""Metrics of clients are read as OpenTelemetry writes them, and within bounds."""

from __future__ import annotations

import contextlib
import random

import pytest
from tests.wire.otlp_writing import counter, gauge, number_field, payload, point, tagged, varint

from qanat.model.errors import MalformedMessageError
from qanat.wire.otlp import FIELDS_MAX, LABELS_MAX, TEXT_CHARS_MAX, Point, read_points
from qanat.wire.protobuf import FieldBudget, read_fields


def points(data: bytes) -> list[Point]:
    return read_points(memoryview(data))


def test_gauges_and_counters_are_read_with_their_labels() -> None:
    data = payload(
        gauge("latency.avg", point(1.5, {"node.id": "3"}), point(-2, {"node.id": "4"})),
        counter("sent.total", point(7)),
        counter("sent", point(2), is_delta=True),
    )

    assert points(data) == [
        Point("latency.avg", (("node.id", "3"),), 1.5, "ms", False, False),
        Point("latency.avg", (("node.id", "4"),), -2.0, "ms", False, False),
        Point("sent.total", (), 7.0, "", True, False),
        Point("sent", (), 2.0, "", True, True),
    ]


def test_what_is_not_known_is_passed() -> None:
    histogram = tagged(1, b"h") + tagged(9, b"".join(tagged(1, number_field(4, 1)) for _ in range(3)))

    assert points(number_field(99, 1) + payload(histogram, gauge("a", point(1.0)))) == points(
        payload(gauge("a", point(1.0)))
    )
    assert points(b"") == []


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x0a\xff", "cut off"),
        (b"\x0a\x05abc", "cut off"),
        (b"\x80" * 12, "more than ten bytes"),
        (b"\x0b", "wire type 3"),
        (b"\x00\x00", "number 0"),
        (varint(1 << 3) + b"\x01", "has the wire type 0"),
        (payload(gauge("n" * (TEXT_CHARS_MAX + 1), point(1.0))), "more than 250 characters"),
        (payload(tagged(1, b"\xff\xfe") + tagged(5, tagged(1, point(1.0)))), "not UTF-8"),
        (payload(tagged(5, tagged(1, point(1.0)))), "has no name"),
        (payload(gauge("a", point(1.0, {f"l{n}": "x" for n in range(LABELS_MAX + 1)}))), "more than 12 labels"),
        (b"\x0a\x00" * (FIELDS_MAX + 1), "more than the 20000 fields"),
    ],
)
def test_what_is_wrong_is_refused_with_its_reason(data: bytes, reason: str) -> None:
    with pytest.raises(MalformedMessageError, match=reason):
        points(data)


def test_random_bytes_and_cut_payloads_raise_nothing_else() -> None:
    draw = random.Random(7)
    good = payload(gauge("a", point(1.0, {"x": "y"})), counter("b", point(2)))
    for _ in range(3000):
        data = bytearray(good)
        for _ in range(draw.randint(1, 4)):
            data[draw.randrange(len(data))] = draw.randrange(256)
        with contextlib.suppress(MalformedMessageError):
            points(bytes(data[: draw.randint(0, len(data))]))


def test_a_budget_is_shared_by_all_levels() -> None:
    budget = FieldBudget(3)
    outer = list(read_fields(memoryview(tagged(1, number_field(1, 5) * 2)), budget))
    list(read_fields(outer[0][2], budget))  # type: ignore[arg-type]

    assert budget.left == 0
