"""The writer's parts: the generated modules call them for everything but fixed-size fields.

A writer appends pieces to a list. `finish` joins small neighbours and leaves
large buffers (records) alone, so that a response goes to the transport's
`writelines` as a few chunks and no record is copied.

A caller's mistake (null where the version allows none, a string
beyond the protocol's limit) is a bug on our side and raises at once.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

T = TypeVar("T")

Chunk: TypeAlias = bytes | memoryview
Append: TypeAlias = Callable[[Chunk], None]
Writer: TypeAlias = Callable[[Append, T], None]
# One buffer, or the slices of several consecutive segments.
Records: TypeAlias = memoryview | bytes | list[memoryview]

NO_NULL = "this version of the message has no null for a field that is None"
LONGEST_STRING_BYTES = 32_767
# A buffer of at least this size is sent without a copy; copying a smaller one is cheaper than one more chunk.
LARGE_BYTES = 4_096

_BYTES = tuple(bytes([value]) for value in range(256))
_pack_length16 = struct.Struct(">h").pack
_pack_length32 = struct.Struct(">i").pack
_NULL16 = b"\xff\xff"
_NULL32 = b"\xff\xff\xff\xff"
# Most arrays are small: length and elements in one call.
_FEW = 17
_pack_numbers = {letter: tuple(struct.Struct(f">i{count}{letter}").pack for count in range(_FEW)) for letter in "bhiqd"}
_pack_compact_numbers = {
    letter: tuple(struct.Struct(f">B{count}{letter}").pack for count in range(_FEW)) for letter in "bhiqd"
}


def finish(pieces: list[Chunk]) -> list[Chunk]:
    """Small neighbours joined, large buffers untouched."""
    chunks: list[Chunk] = []
    start = 0
    for large in [index for index, piece in enumerate(pieces) if len(piece) >= LARGE_BYTES]:
        if start < large:
            chunks.append(b"".join(pieces[start:large]))
        chunks.append(pieces[large])
        start = large + 1
    if start < len(pieces):
        chunks.append(b"".join(pieces[start:]))
    return chunks


def encode_uvarint(value: int) -> bytes:
    if value < 0x80:
        return _BYTES[value]
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


# Strings


def encode_string(value: str) -> bytes:
    raw = value.encode()
    return _pack_length16(len(raw)) + raw


def encode_nullable_string(value: str | None) -> bytes:
    return _NULL16 if value is None else encode_string(value)


def encode_compact_string(value: str) -> bytes:
    raw = value.encode()
    length = len(raw) + 1
    if length < 0x80:
        return _BYTES[length] + raw
    if length > LONGEST_STRING_BYTES + 1:
        raise ValueError(f"a string of {length - 1} bytes does not fit the protocol")
    return encode_uvarint(length) + raw


def encode_nullable_compact_string(value: str | None) -> bytes:
    return b"\0" if value is None else encode_compact_string(value)


# Bytes and records


def encode_bytes(value: bytes) -> bytes:
    return _pack_length32(len(value)) + value


def encode_nullable_bytes(value: bytes | None) -> bytes:
    return _NULL32 if value is None else encode_bytes(value)


def encode_compact_bytes(value: bytes) -> bytes:
    return encode_uvarint(len(value) + 1) + value


def encode_nullable_compact_bytes(value: bytes | None) -> bytes:
    return b"\0" if value is None else encode_compact_bytes(value)


def write_records(append: Append, records: Records | None) -> None:
    if records is None:
        raise ValueError(NO_NULL)
    if isinstance(records, (memoryview, bytes)):
        append(_pack_length32(len(records)))
        append(records)
        return
    append(_pack_length32(sum(map(len, records))))
    for part in records:
        append(part)


def write_nullable_records(append: Append, records: Records | None) -> None:
    if records is None:
        append(_NULL32)
    else:
        write_records(append, records)


def write_compact_records(append: Append, records: Records | None) -> None:
    if records is None:
        raise ValueError(NO_NULL)
    if isinstance(records, (memoryview, bytes)):
        append(encode_uvarint(len(records) + 1))
        append(records)
        return
    append(encode_uvarint(sum(map(len, records)) + 1))
    for part in records:
        append(part)


def write_nullable_compact_records(append: Append, records: Records | None) -> None:
    if records is None:
        append(b"\0")
    else:
        write_compact_records(append, records)


# Arrays of structs


def write_array(append: Append, items: Sequence[T], write: Writer[T]) -> None:
    append(_pack_length32(len(items)))
    for item in items:
        write(append, item)


def write_nullable_array(append: Append, items: Sequence[T] | None, write: Writer[T]) -> None:
    if items is None:
        append(_NULL32)
    else:
        write_array(append, items, write)


def write_compact_array(append: Append, items: Sequence[T], write: Writer[T]) -> None:
    append(encode_uvarint(len(items) + 1))
    for item in items:
        write(append, item)


def write_nullable_compact_array(append: Append, items: Sequence[T] | None, write: Writer[T]) -> None:
    if items is None:
        append(b"\0")
    else:
        write_compact_array(append, items, write)


def write_nullable_struct(append: Append, item: T | None, write: Writer[T]) -> None:
    """KIP-893: one signed byte in front of the struct, negative for null."""
    if item is None:
        append(b"\xff")
    else:
        append(b"\x01")
        write(append, item)


def write_nullable_tagged_struct(append: Append, item: T | None, write: Writer[T]) -> None:
    """In a tagged field the number in front of the struct is unsigned, and 0 for null."""
    if item is None:
        append(b"\0")
    else:
        append(b"\x01")
        write(append, item)


# Arrays of strings and of numbers


def encode_strings(values: Sequence[str]) -> bytes:
    return _pack_length32(len(values)) + b"".join(map(encode_string, values))


def encode_nullable_strings(values: Sequence[str] | None) -> bytes:
    return _NULL32 if values is None else encode_strings(values)


def encode_compact_strings(values: Sequence[str]) -> bytes:
    return encode_uvarint(len(values) + 1) + b"".join(map(encode_compact_string, values))


def encode_nullable_compact_strings(values: Sequence[str] | None) -> bytes:
    return b"\0" if values is None else encode_compact_strings(values)


def encode_numbers(values: Sequence[int], letter: str) -> bytes:
    count = len(values)
    if count < _FEW:
        return _pack_numbers[letter][count](count, *values)
    return struct.pack(f">i{count}{letter}", count, *values)


def encode_nullable_numbers(values: Sequence[int] | None, letter: str) -> bytes:
    return _NULL32 if values is None else encode_numbers(values, letter)


def encode_compact_numbers(values: Sequence[int], letter: str) -> bytes:
    count = len(values)
    if count < _FEW:
        return _pack_compact_numbers[letter][count](count + 1, *values)
    return encode_uvarint(count + 1) + struct.pack(f">{count}{letter}", *values)


def encode_nullable_compact_numbers(values: Sequence[int] | None, letter: str) -> bytes:
    return b"\0" if values is None else encode_compact_numbers(values, letter)


# Tagged fields


def add_tag(tags: list[tuple[int, list[Chunk]]], tag: int) -> Append:
    """Where to append the value of one tagged field; call it in the order of the tags."""
    pieces: list[Chunk] = []
    tags.append((tag, pieces))
    return pieces.append


def write_tags(append: Append, tags: list[tuple[int, list[Chunk]]]) -> None:
    """The tagged fields that differ from their defaults."""
    append(encode_uvarint(len(tags)))
    for tag, pieces in tags:
        value = b"".join(pieces)
        append(encode_uvarint(tag) + encode_uvarint(len(value)))
        append(value)


def present(value: T | None) -> T:
    """A value that may be null in other versions, but not in the one being written."""
    if value is None:
        raise ValueError(NO_NULL)
    return value
