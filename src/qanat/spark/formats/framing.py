"""Framing: the prefix that serializers of a schema registry put before a value.

It has a zero byte, the schema's id, and for protobuf the place of the message in its file. An option has the schema, so
the id is ignored.
"""

from __future__ import annotations

from qanat.spark.formats.rows import MisfitError

_HEAD = 5
_INDEXES_MAX = 64


def unframed(value: bytes, *, is_protobuf: bool) -> memoryview:
    """The value without its prefix; raises `MisfitError` where it has none."""
    if len(value) < _HEAD or value[0] != 0:
        raise MisfitError("it has no prefix of a schema registry (a zero byte and four bytes of the schema's id)")
    view = memoryview(value)
    return view[_behind_indexes(view) :] if is_protobuf else view[_HEAD:]


def _behind_indexes(value: memoryview) -> int:
    count, position = _varint(value, _HEAD)
    if not 0 <= count <= _INDEXES_MAX:
        raise MisfitError(f"its prefix has {count} message indexes")
    for _ in range(count):
        _, position = _varint(value, position)
    return position


def _varint(value: memoryview, position: int) -> tuple[int, int]:
    """A zigzag number and where it ends."""
    number, shift = 0, 0
    while True:
        if position >= len(value) or shift > 28:
            raise MisfitError("its prefix of a schema registry is cut off")
        byte = value[position]
        number |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), position
