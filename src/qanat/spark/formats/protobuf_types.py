"""Protobuf types: the columns of a message, and how a decoded message becomes a row."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped]

from qanat.spark.formats.value_format import SchemaError

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor  # type: ignore[import-untyped]

Extract = Callable[[Any], Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIMESTAMP = "google.protobuf.Timestamp"
# By FieldDescriptor.CPPTYPE_*: int32, int64, uint32, uint64, double, float, bool, enum, string.
_KINDS = {
    1: pa.int32(),
    2: pa.int64(),
    3: pa.int64(),
    4: pa.decimal128(20, 0),
    5: pa.float64(),
    6: pa.float32(),
    7: pa.bool_(),
    8: pa.string(),
    9: pa.string(),
}
_ENUM, _MESSAGE, _BYTES = 8, 10, 12


def message_type(message: Descriptor, inside: tuple[str, ...] = ()) -> tuple[pa.DataType, Extract]:
    """A struct, and how a message becomes one; an unset field is null, or its default if it has no presence."""
    if message.full_name == _TIMESTAMP:
        return pa.timestamp("us", tz="UTC"), _timestamp
    if message.full_name in inside:
        raise SchemaError(f"message {message.full_name} contains itself, which a column cannot")
    fields = [(one.name, *_field(one, (*inside, message.full_name))) for one in message.fields]
    if not fields:
        raise SchemaError(f"message {message.full_name} has no fields, which a column needs")
    extracts = [(name, extract) for name, _, extract in fields]

    def extract(value: Any) -> dict[str, Any]:
        return {name: take(value) for name, take in extracts}

    return pa.struct([(name, kind) for name, kind, _ in fields]), extract


def _field(field: FieldDescriptor, inside: tuple[str, ...]) -> tuple[pa.DataType, Extract]:
    name = field.name
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        key_kind, key = _single(field.message_type.fields_by_name["key"], inside)
        value_kind, item = _single(field.message_type.fields_by_name["value"], inside)
        return pa.map_(key_kind, value_kind), lambda value: [
            (key(one), item(other)) for one, other in getattr(value, name).items()
        ]
    kind, single = _single(field, inside)
    if field.is_repeated:
        return pa.list_(kind), lambda value: [single(one) for one in getattr(value, name)]
    if field.has_presence:
        return kind, lambda value: single(getattr(value, name)) if value.HasField(name) else None
    return kind, lambda value: single(getattr(value, name))


def _single(field: FieldDescriptor, inside: tuple[str, ...]) -> tuple[pa.DataType, Extract]:
    """One value of a field, repeated or not."""
    if field.cpp_type == _MESSAGE:
        return message_type(field.message_type, inside)
    if field.cpp_type == _ENUM:
        names = {one.number: one.name for one in field.enum_type.values}
        return pa.string(), lambda number: names.get(number, str(number))
    return pa.binary() if field.type == _BYTES else _KINDS[field.cpp_type], _as_it_is


def _as_it_is(value: Any) -> Any:
    return value


def _timestamp(value: Any) -> datetime:
    return _EPOCH + timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
