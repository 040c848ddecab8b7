"""Protocol Buffers as far as etcd's API needs them: fields that are numbers, bytes or messages, written and read.

A field is a tag (its number and its wire type) and its value. Fields with their default are not written;
unknown fields are skipped, so that a later etcd may send more than we read.
"""

from __future__ import annotations

from collections.abc import Iterator

_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5
_FIXED_BYTES = {_FIXED_64: 8, _FIXED_32: 4}
_MASK_64 = (1 << 64) - 1

Value = int | bytes


class MalformedAnswerError(ValueError):
    """Bytes that are no message: the sender is no etcd."""


def number(field: int, value: int) -> bytes:
    """A field that holds a number or a boolean; negative numbers as etcd's int64."""
    return _varint(field << 3 | _VARINT) + _varint(value & _MASK_64) if value else b""


def blob(field: int, value: bytes) -> bytes:
    """A field that holds bytes or text."""
    return message(field, value) if value else b""


def message(field: int, value: bytes) -> bytes:
    """A field that holds a message; an empty one is written, because its presence means something."""
    return _varint(field << 3 | _BYTES) + _varint(len(value)) + value


def fields(data: bytes) -> Iterator[tuple[int, Value]]:
    """All fields of a message in the order in which they were written, repeated ones included."""
    position, end = 0, len(data)
    while position < end:
        tag, position = _read_varint(data, position)
        kind = tag & 7
        if kind == _VARINT:
            value, position = _read_varint(data, position)
            yield tag >> 3, value
            continue
        if kind == _BYTES:
            length, position = _read_varint(data, position)
        elif kind in _FIXED_BYTES:
            length = _FIXED_BYTES[kind]
        else:
            raise MalformedAnswerError(f"a field of kind {kind}")
        if position + length > end:
            raise MalformedAnswerError(f"a field of {length} bytes where {end - position} are left")
        yield tag >> 3, data[position : position + length]
        position += length


def as_bytes(value: Value) -> bytes:
    if not isinstance(value, bytes):
        raise MalformedAnswerError("a number where bytes were expected")
    return value


def as_int(value: Value) -> int:
    """A signed number of 64 bits."""
    if not isinstance(value, int):
        raise MalformedAnswerError("bytes where a number was expected")
    return value - (1 << 64) if value >> 63 else value


def _varint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        if position >= len(data) or shift > 63:
            raise MalformedAnswerError("a number that does not end")
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result & _MASK_64, position
        shift += 7
