"""Avro types: the columns of an Avro schema, and how decoded values are adapted for Arrow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]

from qanat.spark.formats.value_format import SchemaError

Adapt = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Described:
    """A type, and how a value of it is adapted for Arrow; None where it needs no change."""

    kind: pa.DataType
    adapt: Adapt | None = None


_UTC = pa.timestamp("us", tz="UTC")
_SIMPLE: Mapping[str, pa.DataType] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
}
_LOGICAL: Mapping[tuple[str, str], Described] = {
    ("int", "date"): Described(pa.date32()),
    ("long", "timestamp-millis"): Described(_UTC),
    ("long", "timestamp-micros"): Described(_UTC),
    ("long", "local-timestamp-millis"): Described(pa.timestamp("us")),
    ("long", "local-timestamp-micros"): Described(pa.timestamp("us")),
    ("string", "uuid"): Described(pa.string(), str),
}
_UNREAD = ("time-millis", "time-micros", "duration")
_WIDER = ({"int", "long"}, {"float", "double"})


def described(schema: Any) -> Described:
    """The type of a parsed schema; raises `SchemaError` for a type without a column."""
    return _described(schema, {}, ())


def _described(schema: Any, known: dict[str, Any], inside: tuple[str, ...]) -> Described:
    if isinstance(schema, list):
        return _union(schema, known, inside)
    if isinstance(schema, str):
        if schema in known:
            return _described(known[schema], known, inside)
        if schema not in _SIMPLE:
            raise SchemaError(f"type {schema} of the Avro schema is not defined")
        return Described(_SIMPLE[schema])
    name, logical = schema["type"], schema.get("logicalType")
    if isinstance(name, dict | list):
        return _described(name, known, inside)
    if "name" in schema:
        known[schema["name"]] = schema
    match name:
        case "record":
            return _record(schema, known, inside)
        case "array":
            return _array(_described(schema["items"], known, inside))
        case "map":
            return _map(_described(schema["values"], known, inside))
    if logical == "decimal":
        return Described(pa.decimal128(schema["precision"], schema.get("scale", 0)))
    if logical in _UNREAD:
        raise SchemaError(f"the Avro schema has a {logical}, for which there is no column")
    return _LOGICAL.get((name, logical)) or _described(name, known, inside)


def _record(schema: Any, known: dict[str, Any], inside: tuple[str, ...]) -> Described:
    name = schema["name"]
    if name in inside:
        raise SchemaError(f"record {name} of the Avro schema contains itself, which a column cannot")
    fields = {one["name"]: _described(one["type"], known, (*inside, name)) for one in schema["fields"]}
    changed = {name: one.adapt for name, one in fields.items() if one.adapt is not None}

    def adapt(value: dict[str, Any]) -> dict[str, Any]:
        return {**value, **{name: change(value[name]) for name, change in changed.items()}}

    kind = pa.struct([(name, one.kind) for name, one in fields.items()])
    return Described(kind, adapt if changed else None)


def _array(item: Described) -> Described:
    change = item.adapt
    if change is None:
        return Described(pa.list_(item.kind))
    return Described(pa.list_(item.kind), lambda values: [change(one) for one in values])


def _map(value: Described) -> Described:
    change = value.adapt
    kind = pa.map_(pa.string(), value.kind)
    if change is None:
        return Described(kind, lambda found: list(found.items()))
    return Described(kind, lambda found: [(key, change(one)) for key, one in found.items()])


def _union(branches: list[Any], known: dict[str, Any], inside: tuple[str, ...]) -> Described:
    """An optional type, or two numbers of which one is wider. Any other union has no single column."""
    others = [one for one in branches if one != "null"]
    if not others:
        return Described(pa.null())
    if len(others) == 1:
        found = _described(others[0], known, inside)
        change = found.adapt
        return (
            found if change is None else Described(found.kind, lambda value: None if value is None else change(value))
        )
    for pair in _WIDER:
        if all(isinstance(one, str) and one in pair for one in others):
            return Described(pa.int64() if "long" in pair else pa.float64())
    raise SchemaError(f"the Avro schema has a union of {len(others)} types, for which there is no single column")
