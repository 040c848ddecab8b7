"""Protobuf's wire format, read within bounds: the fields of a message as numbers and values.

For bytes that clients send: metrics of clients (`otlp`), values of topics (`protobuf_values`). There are no classes of
messages here, so that a broker needs no library for them.

Rule: every field costs a unit of a budget, so that no bytes, however nested, cost more than it allows.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from qanat.model.errors import MalformedMessageError, TooManyElementsError

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_VARINT_BYTES_MAX = 10
_unpack_fixed64 = struct.Struct("<Q").unpack_from
_unpack_fixed32 = struct.Struct("<I").unpack_from
_unpack_double = struct.Struct("<d").unpack
_unpack_float = struct.Struct("<f").unpack

Value = int | memoryview
"""A number as its bits, without a sign; the bytes of anything else."""


class FieldBudget:
    """How many fields may be read yet."""

    __slots__ = ("left", "most")

    def __init__(self, most: int) -> None:
        self.left = self.most = most

    def spend(self, count: int = 1) -> None:
        self.left -= count
        if self.left < 0:
            raise TooManyElementsError(f"a message has more than the {self.most} fields that are read")


def read_fields(data: memoryview, budget: FieldBudget) -> Iterator[tuple[int, int, Value]]:
    """Number, wire type and value of each field; raises `MalformedMessageError`."""
    position, end = 0, len(data)
    while position < end:
        budget.spend()
        tag, position = read_varint(data, position)
        number, wire_type = tag >> 3, tag & 7
        value: Value
        if not number:
            raise MalformedMessageError("a field has the number 0")
        if wire_type == VARINT:
            value, position = read_varint(data, position)
        elif wire_type == BYTES:
            size, position = read_varint(data, position)
            if size > end - position:
                raise MalformedMessageError(f"field {number} is cut off")
            value = data[position : position + size]
            position += size
        elif wire_type in (FIXED64, FIXED32):
            size = 8 if wire_type == FIXED64 else 4
            if size > end - position:
                raise MalformedMessageError(f"field {number} is cut off")
            (value,) = (_unpack_fixed64 if wire_type == FIXED64 else _unpack_fixed32)(data, position)
            position += size
        else:
            raise MalformedMessageError(f"field {number} has the wire type {wire_type}, which is not supported")
        yield number, wire_type, value


def read_varint(data: memoryview, position: int) -> tuple[int, int]:
    """A number of up to 64 bits without a sign, and where it ends."""
    value = shift = 0
    while True:
        if position >= len(data):
            raise MalformedMessageError("a number is cut off")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, position
        shift += 7
        if shift >= 7 * _VARINT_BYTES_MAX:
            raise MalformedMessageError("a number has more than ten bytes")


def signed(bits: int) -> int:
    """The same 64 bits with a sign."""
    return bits - (1 << 64) if bits >> 63 else bits


def as_double(bits: int) -> float:
    found: float = _unpack_double(bits.to_bytes(8, "little"))[0]
    return found


def as_float(bits: int) -> float:
    found: float = _unpack_float(bits.to_bytes(4, "little"))[0]
    return found
