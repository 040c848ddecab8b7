"""Metrics of OpenTelemetry's protocol (OTLP), as clients push them (KIP-714): numbers with names and labels.

Sums and gauges are read, with their attributes as labels; histograms and summaries, which no Kafka client sends, are
left out. See opentelemetry/proto/metrics/v1/metrics.proto for the numbers of fields.

Rule: a client says what it likes: fields, points, labels and the length of every text have a bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from qanat.model.errors import MalformedMessageError
from qanat.wire.protobuf import BYTES, FIXED64, VARINT, FieldBudget, Value, as_double, read_fields, signed

FIELDS_MAX = 20_000
"""Fields of one payload that are read: some thousand points."""
TEXT_CHARS_MAX = 250
LABELS_MAX = 12
_DELTA = 1

_RESOURCE_METRICS, _SCOPE_METRICS, _METRICS = 1, 2, 2
_NAME, _UNIT, _GAUGE, _SUM = 1, 3, 5, 7
_POINTS, _TEMPORALITY, _IS_MONOTONIC = 1, 2, 3
_AS_DOUBLE, _AS_INT, _ATTRIBUTES = 4, 6, 7
_KEY, _VALUE = 1, 2
_STRING, _BOOL, _INT, _DOUBLE = 1, 2, 3, 4

Labels = tuple[tuple[str, str], ...]


class Point(NamedTuple):
    """One number of a client."""

    name: str
    labels: Labels
    value: float
    unit: str
    is_counter: bool
    is_delta: bool
    """Since the last push; otherwise since the client began."""


def read_points(payload: memoryview) -> list[Point]:
    """All numbers of a payload; raises `MalformedMessageError`."""
    budget = FieldBudget(FIELDS_MAX)
    found: list[Point] = []
    for resource in _children(payload, _RESOURCE_METRICS, budget):
        for scope in _children(resource, _SCOPE_METRICS, budget):
            for metric in _children(scope, _METRICS, budget):
                found += _points(metric, budget)
    return found


def _children(data: memoryview, wanted: int, budget: FieldBudget) -> Iterator[memoryview]:
    for number, wire_type, value in read_fields(data, budget):
        if number == wanted:
            yield _bytes(wire_type, value)


def _points(metric: memoryview, budget: FieldBudget) -> Iterator[Point]:
    name = unit = ""
    points: list[memoryview] = []
    is_counter = is_delta = False
    for number, wire_type, value in read_fields(metric, budget):
        if number == _NAME:
            name = _text(wire_type, value)
        elif number == _UNIT:
            unit = _text(wire_type, value)
        elif number in (_GAUGE, _SUM):
            for inner, inner_type, part in read_fields(_bytes(wire_type, value), budget):
                if inner == _POINTS:
                    points.append(_bytes(inner_type, part))
                elif number == _SUM and inner == _TEMPORALITY:
                    is_delta = part == _DELTA
                elif number == _SUM and inner == _IS_MONOTONIC:
                    is_counter = part == 1
    if points and not name:
        raise MalformedMessageError("a metric has no name")
    for point in points:
        labels, number_of = _point(point, budget)
        if number_of is not None:
            yield Point(name, labels, number_of, unit, is_counter, is_delta)


def _point(data: memoryview, budget: FieldBudget) -> tuple[Labels, float | None]:
    found: float | None = None
    labels: dict[str, str] = {}
    for number, wire_type, value in read_fields(data, budget):
        if number == _AS_DOUBLE and wire_type == FIXED64:
            found = as_double(_number(value))
        elif number == _AS_INT and wire_type == FIXED64:
            found = float(signed(_number(value)))
        elif number == _ATTRIBUTES:
            name, text = _label(_bytes(wire_type, value), budget)
            labels[name] = text
            if len(labels) > LABELS_MAX:
                raise MalformedMessageError(f"a metric has more than {LABELS_MAX} labels")
    return tuple(sorted(labels.items())), found


def _label(data: memoryview, budget: FieldBudget) -> tuple[str, str]:
    name = text = ""
    for number, wire_type, value in read_fields(data, budget):
        if number == _KEY:
            name = _text(wire_type, value)
        elif number == _VALUE:
            text = _any(_bytes(wire_type, value), budget)
    return name, text


def _any(data: memoryview, budget: FieldBudget) -> str:
    """A value of any type as text; lists and maps as nothing."""
    for number, wire_type, value in read_fields(data, budget):
        if number == _STRING:
            return _text(wire_type, value)
        if number == _BOOL and wire_type == VARINT:
            return "true" if value else "false"
        if number == _INT and wire_type == VARINT:
            return str(signed(_number(value)))
        if number == _DOUBLE and wire_type == FIXED64:
            return repr(as_double(_number(value)))
    return ""


def _bytes(wire_type: int, value: Value) -> memoryview:
    if wire_type != BYTES or isinstance(value, int):
        raise MalformedMessageError(f"a field that holds a message has the wire type {wire_type}")
    return value


def _number(value: Value) -> int:
    assert isinstance(value, int), "of a wire type that is a number"
    return value


def _text(wire_type: int, value: Value) -> str:
    data = _bytes(wire_type, value)
    try:
        found = str(data[: 4 * TEXT_CHARS_MAX], "utf-8")
    except UnicodeDecodeError:
        raise MalformedMessageError("a text is not UTF-8") from None
    if len(data) > 4 * TEXT_CHARS_MAX or len(found) > TEXT_CHARS_MAX:
        raise MalformedMessageError(f"a text has more than {TEXT_CHARS_MAX} characters")
    return found
