"""Protobuf values as JSON values, for people: described by a file descriptor set of `protoc`.

For brokers, as `avro_values` is, and with bounds for the same reason: a message with thousands of fields takes much
memory for each two bytes. Clients and pipelines use the library of protobuf.

Fields have the names of the .proto file; what is not set is left out; bytes become base64, and
google.protobuf.Timestamp the text that a person reads.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct

from qanat.model.errors import MalformedMessageError
from qanat.model.spelling import did_you_mean
from qanat.wire.protobuf import (
    BYTES,
    FIXED32,
    FIXED64,
    VARINT,
    FieldBudget,
    Value,
    as_double,
    as_float,
    read_fields,
    read_varint,
    signed,
)

VALUES_MAX = 20_000
DEPTH_MAX = 64
_DESCRIPTOR_FIELDS_MAX = 100_000
_DESCRIPTOR_BYTES_MAX = 512 * 1024
_TIMESTAMP = ".google.protobuf.Timestamp"
_DOUBLE, _FLOAT, _BOOL, _STRING, _GROUP, _MESSAGE, _BYTES, _ENUM = 1, 2, 8, 9, 10, 11, 12, 14
_ON_WIRE: Mapping[int, int] = {
    **dict.fromkeys((1, 6, 16), FIXED64),
    **dict.fromkeys((2, 7, 15), FIXED32),
    **dict.fromkeys((3, 4, 5, 8, 13, 14, 17, 18), VARINT),
    **dict.fromkeys((_STRING, _MESSAGE, _BYTES), BYTES),
}
_UNSIGNED, _ZIGZAG, _SIGNED32 = (4, 6, 7, 13), (17, 18), 15
_REPEATED = 3


class ProtobufSchemaError(MalformedMessageError):
    """A descriptor that cannot be used."""


class _Field(Struct):
    name: str = ""
    kind: int = 0
    type_name: str = ""
    is_repeated: bool = False


class _Message(Struct):
    fields: dict[int, _Field]
    is_map_entry: bool = False


class ProtobufValues:
    """Reads the values of one message."""

    def __init__(self, descriptor: bytes, message: str) -> None:
        if len(descriptor) > _DESCRIPTOR_BYTES_MAX:
            raise ProtobufSchemaError(f"the descriptor has more than {_DESCRIPTOR_BYTES_MAX} bytes")
        self._messages: dict[str, _Message] = {}
        self._enums: dict[str, dict[int, str]] = {}
        try:
            self._learn_files(memoryview(descriptor), FieldBudget(_DESCRIPTOR_FIELDS_MAX))
        except (MalformedMessageError, UnicodeDecodeError) as fault:
            raise ProtobufSchemaError(
                f"the descriptor cannot be used ({fault}): it is made by "
                "protoc --include_imports --descriptor_set_out=FILE"
            ) from None
        known = sorted(name.removeprefix(".") for name, one in self._messages.items() if not one.is_map_entry)
        if not message and len(known) == 1:
            message = known[0]
        if "." + message not in self._messages:
            hint = did_you_mean(message, known, f"there are {', '.join(known[:20]) or 'none'}")
            raise ProtobufSchemaError(f"the descriptor has no message {message[:200]!r}{hint}")
        self._root = "." + message

    @classmethod
    def of_base64(cls, text: str, message: str) -> ProtobufValues:
        try:
            return cls(base64.b64decode(text, validate=True), message)
        except binascii.Error:
            raise ProtobufSchemaError(
                "the schema of Protobuf values is the base64 of a file descriptor set: "
                "protoc --include_imports --descriptor_set_out=/dev/stdout FILE.proto | base64 -w0"
            ) from None

    def decode(self, data: bytes | memoryview) -> Any:
        """A value of JSON; raises `MalformedMessageError`."""
        return self._message(self._root, memoryview(data), FieldBudget(VALUES_MAX), 0)

    # Descriptors, as google/protobuf/descriptor.proto numbers their fields

    def _learn_files(self, data: memoryview, budget: FieldBudget) -> None:
        for number, _, file in read_fields(data, budget):
            if number != 1 or isinstance(file, int):
                continue
            parts = list(read_fields(file, budget))
            package = "".join(_text(value) for part, _, value in parts if part == 2)
            prefix = f".{package}" if package else ""
            for part, _, value in parts:
                if part == 4:
                    self._learn_message(_view(value), prefix, budget, 0)
                elif part == 5:
                    self._learn_enum(_view(value), prefix, budget)

    def _learn_message(self, data: memoryview, prefix: str, budget: FieldBudget, depth: int) -> None:
        if depth > DEPTH_MAX:
            raise MalformedMessageError(f"messages are nested deeper than {DEPTH_MAX} levels")
        parts = list(read_fields(data, budget))
        full = f"{prefix}.{''.join(_text(value) for number, _, value in parts if number == 1)}"
        found = self._messages[full] = _Message({})
        for number, _, value in parts:
            if number == 2:
                at, field = _field(_view(value), budget)
                found.fields[at] = field
            elif number == 3:
                self._learn_message(_view(value), full, budget, depth + 1)
            elif number == 4:
                self._learn_enum(_view(value), full, budget)
            elif number == 7:
                found.is_map_entry = any(one == 7 and bits for one, _, bits in read_fields(_view(value), budget))

    def _learn_enum(self, data: memoryview, prefix: str, budget: FieldBudget) -> None:
        name, names = "", {}
        for number, _, value in read_fields(data, budget):
            if number == 1:
                name = _text(value)
            elif number == 2:
                parts = {one: part for one, _, part in read_fields(_view(value), budget)}
                bits = parts.get(2, 0)
                names[signed(bits) if isinstance(bits, int) else 0] = _text(parts.get(1, 0))
        self._enums[f"{prefix}.{name}"] = names

    # Values

    def _message(self, name: str, data: memoryview, budget: FieldBudget, depth: int) -> Any:
        if depth > DEPTH_MAX:
            raise MalformedMessageError(f"it is nested deeper than {DEPTH_MAX} levels")
        message = self._messages.get(name)
        if message is None:
            raise MalformedMessageError(
                f"the descriptor lacks {name.removeprefix('.')}: make it with --include_imports"
            )
        found: dict[str, Any] = {}
        for number, wire_type, value in read_fields(data, budget):
            field = message.fields.get(number)
            if field is None:
                continue
            if field.is_repeated:
                self._repeat(found, field, wire_type, value, budget, depth)
            else:
                found[field.name] = self._one(field, wire_type, value, budget, depth)
        return _timestamp(found) if name == _TIMESTAMP else found

    def _repeat(
        self, found: dict[str, Any], field: _Field, wire_type: int, value: Value, budget: FieldBudget, depth: int
    ) -> None:
        entry = self._messages.get(field.type_name) if field.kind == _MESSAGE else None
        if entry is not None and entry.is_map_entry:
            pair = self._one(field, wire_type, value, budget, depth)
            key = pair.get("key", "")
            found.setdefault(field.name, {})[str(key).lower() if isinstance(key, bool) else str(key)] = pair.get(
                "value"
            )
            return
        items = found.setdefault(field.name, [])
        if wire_type == BYTES and _ON_WIRE.get(field.kind) != BYTES and not isinstance(value, int):
            for bits in _packed(value, _ON_WIRE.get(field.kind, VARINT), budget):
                items.append(self._number(field, bits))
        else:
            items.append(self._one(field, wire_type, value, budget, depth))

    def _one(self, field: _Field, wire_type: int, value: Value, budget: FieldBudget, depth: int) -> Any:
        if wire_type != _ON_WIRE.get(field.kind):
            raise MalformedMessageError(f"field {field.name} has the wire type {wire_type}, which its type has not")
        if isinstance(value, int):
            return self._number(field, value)
        if field.kind == _MESSAGE:
            return self._message(field.type_name, value, budget, depth + 1)
        if field.kind == _STRING:
            return _text(value)
        return base64.b64encode(value).decode()

    def _number(self, field: _Field, bits: int) -> Any:
        kind = field.kind
        if kind == _DOUBLE:
            return as_double(bits)
        if kind == _FLOAT:
            return as_float(bits)
        if kind == _BOOL:
            return bits != 0
        if kind == _ENUM:
            number = signed(bits)
            return self._enums.get(field.type_name, {}).get(number, number)
        if kind in _ZIGZAG:
            return (bits >> 1) ^ -(bits & 1)
        if kind in _UNSIGNED:
            return bits
        if kind == _SIGNED32:
            return bits - (1 << 32) if bits >> 31 else bits
        return signed(bits)


def _field(data: memoryview, budget: FieldBudget) -> tuple[int, _Field]:
    at, field = 0, _Field()
    for number, _, value in read_fields(data, budget):
        if isinstance(value, int):
            if number == 3:
                at = value
            elif number == 4:
                field.is_repeated = value == _REPEATED
            elif number == 5:
                field.kind = value
        elif number == 1:
            field.name = _text(value)
        elif number == 6:
            field.type_name = _text(value)
    return at, field


def _packed(data: memoryview, wire_type: int, budget: FieldBudget) -> list[int]:
    found: list[int] = []
    position = 0
    size = {FIXED64: 8, FIXED32: 4}.get(wire_type)
    while position < len(data):
        budget.spend()
        if size is None:
            bits, position = read_varint(data, position)
        elif position + size > len(data):
            raise MalformedMessageError("a list of numbers is cut off")
        else:
            bits = int.from_bytes(data[position : position + size], "little")
            position += size
        found.append(bits)
    return found


def _view(value: Value) -> memoryview:
    if isinstance(value, int):
        raise MalformedMessageError("a number stands where a message should")
    return value


def _text(value: Value) -> str:
    try:
        return str(_view(value), "utf-8")
    except UnicodeDecodeError:
        raise MalformedMessageError("a text is not UTF-8") from None


def _timestamp(found: dict[str, Any]) -> Any:
    try:
        at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(
            seconds=found.get("seconds", 0), microseconds=found.get("nanos", 0) // 1000
        )
    except (OverflowError, TypeError):
        return found
    return at.replace(tzinfo=None).isoformat() + "Z"
