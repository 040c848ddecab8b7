"""The reader's parts: what the generated modules call for everything but fixed-size fields.

A reader takes the frame, a position and a budget, and returns a value and the
position behind it. The rules that keep strangers from hurting us:

Rule 1: a declared length is compared with the bytes left before anything is
allocated for it, and a declared count with the fewest bytes that so many
elements can take.
Rule 2: what becomes a Python object is paid for from the budget, which grows
with the size of the message. So the time per byte is bounded, whatever a
message is made of, and a request holds at most `ELEMENT_LIMIT` elements.
Rule 3: running over the end raises `struct.error` or `IndexError`, which
`read_message` turns into `MalformedMessageError`. Readers are not called
any other way.

Tagged fields (KIP-482) are taken as Kafka takes them: unknown tags are
skipped, any order will do, and of a repeated tag the last one counts.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NoReturn, TypeAlias, TypeVar

from qanat.model.errors import MalformedMessageError

T = TypeVar("T")

# What is left to spend on elements, as a list of one number that all readers of a message share.
Budget: TypeAlias = list[int]
Reader: TypeAlias = Callable[[memoryview, int, Budget], tuple[T, int]]

ELEMENT_LIMIT = 1_000_000
# Responses come from brokers that we chose to ask; their size is bound enough.
RESPONSE_ELEMENT_LIMIT = 1 << 31
# A number in an array costs one; a string, a struct or a tagged field becomes an object of its own.
OBJECT_COST = 4
# What a message may spend however small it is, and how many bytes buy one more.
FREE_ELEMENTS = 65_536
BYTES_PER_ELEMENT = 4

LONGEST_STRING_BYTES = 32_767

_unpack_length16 = struct.Struct(">h").unpack_from
_unpack_length32 = struct.Struct(">i").unpack_from
# Short values are the rule: one call that skips the length, checks the bounds and takes the bytes.
_SHORT = 128
_take = tuple(struct.Struct(f"{length}s").unpack_from for length in range(_SHORT))
_FEW = 17
_SIZES = {letter: struct.calcsize(f">{letter}") for letter in "bhiqd"}
_take_numbers = {
    letter: tuple(struct.Struct(f">{count}{letter}").unpack_from for count in range(_FEW)) for letter in _SIZES
}


def read_message(read: Reader[T], data: memoryview | bytes, position: int, limit: int = ELEMENT_LIMIT) -> T:
    """Read a message; whatever is wrong with it is one kind of fault.

    Bytes after its last field are left alone, as Kafka leaves them: librdkafka sends three of them when it
    asks for all topics in a flexible version.
    """
    view = data if isinstance(data, memoryview) else memoryview(data)
    size = len(view)
    budget = FREE_ELEMENTS + size // BYTES_PER_ELEMENT
    try:
        message, _ = read(view, position, [min(limit, budget)])
    except (struct.error, IndexError):
        raise MalformedMessageError(f"A message of {size} bytes ends before its last field.") from None
    except UnicodeDecodeError:
        raise MalformedMessageError("A string in a message is not UTF-8.") from None
    return message


def _overrun(length: int, data: memoryview, position: int) -> NoReturn:
    raise MalformedMessageError(f"A field declares {length} bytes or elements; {len(data) - position} bytes are left.")


def _refuse_length(length: int) -> NoReturn:
    if length == -1:
        raise MalformedMessageError("A field is null that may not be.")
    raise MalformedMessageError(f"A field declares a length of {length}.")


def _refuse_count() -> NoReturn:
    raise MalformedMessageError("A message holds more elements than its size may carry.")


def read_uvarint(data: memoryview, position: int) -> tuple[int, int]:
    """An unsigned number in groups of seven bits, lowest first; five bytes at most."""
    value = data[position]
    if value < 0x80:
        return value, position + 1
    value &= 0x7F
    for shift in (7, 14, 21, 28):
        position += 1
        byte = data[position]
        if byte < 0x80:
            return value | byte << shift, position + 1
        value |= (byte & 0x7F) << shift
    raise MalformedMessageError("A length is spelled in more than five bytes.")


# Strings


def _long_string(data: memoryview, position: int, length: int) -> tuple[str, int]:
    if length < 0:
        _refuse_length(length)
    if length > LONGEST_STRING_BYTES:
        raise MalformedMessageError(f"A string declares {length} bytes; {LONGEST_STRING_BYTES} are allowed.")
    end = position + length
    if end > len(data):
        _overrun(length, data, position)
    return str(data[position:end], "utf-8"), end


def read_string(data: memoryview, position: int) -> tuple[str, int]:
    (length,) = _unpack_length16(data, position)
    position += 2
    if 0 <= length < _SHORT:
        return _take[length](data, position)[0].decode(), position + length
    return _long_string(data, position, length)


def read_nullable_string(data: memoryview, position: int) -> tuple[str | None, int]:
    (length,) = _unpack_length16(data, position)
    position += 2
    if 0 <= length < _SHORT:
        return _take[length](data, position)[0].decode(), position + length
    if length == -1:
        return None, position
    return _long_string(data, position, length)


def read_compact_string(data: memoryview, position: int) -> tuple[str, int]:
    length = data[position] - 1
    position += 1
    if 0 <= length < _SHORT - 1:
        return _take[length](data, position)[0].decode(), position + length
    length, position = read_uvarint(data, position - 1)
    return _long_string(data, position, length - 1)


def read_nullable_compact_string(data: memoryview, position: int) -> tuple[str | None, int]:
    if data[position]:
        return read_compact_string(data, position)
    return None, position + 1


# Bytes are copied, because they are small and outlive the frame; records are not.


def _view(data: memoryview, position: int, length: int) -> tuple[memoryview, int]:
    end = position + length
    if length < 0:
        _refuse_length(length)
    if end > len(data):
        _overrun(length, data, position)
    return data[position:end], end


def read_records(data: memoryview, position: int) -> tuple[memoryview, int]:
    (length,) = _unpack_length32(data, position)
    return _view(data, position + 4, length)


def read_nullable_records(data: memoryview, position: int) -> tuple[memoryview | None, int]:
    (length,) = _unpack_length32(data, position)
    if length == -1:
        return None, position + 4
    return _view(data, position + 4, length)


def read_compact_records(data: memoryview, position: int) -> tuple[memoryview, int]:
    length, position = read_uvarint(data, position)
    return _view(data, position, length - 1)


def read_nullable_compact_records(data: memoryview, position: int) -> tuple[memoryview | None, int]:
    length, position = read_uvarint(data, position)
    if not length:
        return None, position
    return _view(data, position, length - 1)


def read_bytes(data: memoryview, position: int) -> tuple[bytes, int]:
    view, position = read_records(data, position)
    return bytes(view), position


def read_nullable_bytes(data: memoryview, position: int) -> tuple[bytes | None, int]:
    view, position = read_nullable_records(data, position)
    return None if view is None else bytes(view), position


def read_compact_bytes(data: memoryview, position: int) -> tuple[bytes, int]:
    view, position = read_compact_records(data, position)
    return bytes(view), position


def read_nullable_compact_bytes(data: memoryview, position: int) -> tuple[bytes | None, int]:
    view, position = read_nullable_compact_records(data, position)
    return None if view is None else bytes(view), position


# Arrays of structs. `least_bytes` is what one element takes when everything in it is empty.


def _elements(
    data: memoryview, position: int, budget: Budget, least_bytes: int, read: Reader[T], count: int
) -> tuple[list[T], int]:
    if count <= 0:
        if count < 0:
            _refuse_length(count)
        return [], position
    if count * least_bytes > len(data) - position:
        _overrun(count, data, position)
    left = budget[0] - count * OBJECT_COST
    if left < 0:
        _refuse_count()
    budget[0] = left
    if count == 1:
        item, position = read(data, position, budget)
        return [item], position
    items: list[T] = []
    append = items.append
    for _ in range(count):
        item, position = read(data, position, budget)
        append(item)
    return items, position


def read_array(
    data: memoryview, position: int, budget: Budget, least_bytes: int, read: Reader[T]
) -> tuple[list[T], int]:
    (count,) = _unpack_length32(data, position)
    return _elements(data, position + 4, budget, least_bytes, read, count)


def read_nullable_array(
    data: memoryview, position: int, budget: Budget, least_bytes: int, read: Reader[T]
) -> tuple[list[T] | None, int]:
    (count,) = _unpack_length32(data, position)
    if count == -1:
        return None, position + 4
    return _elements(data, position + 4, budget, least_bytes, read, count)


def read_compact_array(
    data: memoryview, position: int, budget: Budget, least_bytes: int, read: Reader[T]
) -> tuple[list[T], int]:
    count = data[position]
    if count == 1:
        return [], position + 1
    if count < 0x80:
        return _elements(data, position + 1, budget, least_bytes, read, count - 1)
    count, position = read_uvarint(data, position)
    return _elements(data, position, budget, least_bytes, read, count - 1)


def read_nullable_compact_array(
    data: memoryview, position: int, budget: Budget, least_bytes: int, read: Reader[T]
) -> tuple[list[T] | None, int]:
    if not data[position]:
        return None, position + 1
    return read_compact_array(data, position, budget, least_bytes, read)


def read_nullable_struct(data: memoryview, position: int, budget: Budget, read: Reader[T]) -> tuple[T | None, int]:
    """KIP-893: one signed byte in front of the struct, negative for null."""
    if data[position] > 0x7F:
        return None, position + 1
    return read(data, position + 1, budget)


# Arrays of strings


def _read_string_element(data: memoryview, position: int, budget: Budget) -> tuple[str, int]:
    return read_string(data, position)


def _read_compact_string_element(data: memoryview, position: int, budget: Budget) -> tuple[str, int]:
    return read_compact_string(data, position)


def read_strings(data: memoryview, position: int, budget: Budget) -> tuple[list[str], int]:
    return read_array(data, position, budget, 2, _read_string_element)


def read_nullable_strings(data: memoryview, position: int, budget: Budget) -> tuple[list[str] | None, int]:
    return read_nullable_array(data, position, budget, 2, _read_string_element)


def read_compact_strings(data: memoryview, position: int, budget: Budget) -> tuple[list[str], int]:
    return read_compact_array(data, position, budget, 1, _read_compact_string_element)


def read_nullable_compact_strings(data: memoryview, position: int, budget: Budget) -> tuple[list[str] | None, int]:
    return read_nullable_compact_array(data, position, budget, 1, _read_compact_string_element)


# Arrays of numbers; `letter` is the element's, as `struct` spells it.


def _numbers(data: memoryview, position: int, budget: Budget, letter: str, count: int) -> tuple[list[int], int]:
    size = count * _SIZES[letter]
    left = budget[0] - count
    if 0 <= count < _FEW:
        values = _take_numbers[letter][count](data, position)
    else:
        if count < 0:
            _refuse_length(count)
        if size > len(data) - position:
            _overrun(count, data, position)
        if left < 0:
            _refuse_count()
        values = struct.unpack_from(f">{count}{letter}", data, position)
    if left < 0:
        _refuse_count()
    budget[0] = left
    return list(values), position + size


def read_numbers(data: memoryview, position: int, budget: Budget, letter: str) -> tuple[list[int], int]:
    (count,) = _unpack_length32(data, position)
    return _numbers(data, position + 4, budget, letter, count)


def read_nullable_numbers(data: memoryview, position: int, budget: Budget, letter: str) -> tuple[list[int] | None, int]:
    (count,) = _unpack_length32(data, position)
    if count == -1:
        return None, position + 4
    return _numbers(data, position + 4, budget, letter, count)


def read_compact_numbers(data: memoryview, position: int, budget: Budget, letter: str) -> tuple[list[int], int]:
    count = data[position]
    if count == 1:
        return [], position + 1
    if count < 0x80:
        return _numbers(data, position + 1, budget, letter, count - 1)
    count, position = read_uvarint(data, position)
    return _numbers(data, position, budget, letter, count - 1)


def read_nullable_compact_numbers(
    data: memoryview, position: int, budget: Budget, letter: str
) -> tuple[list[int] | None, int]:
    if not data[position]:
        return None, position + 1
    return read_compact_numbers(data, position, budget, letter)


# Tagged fields


def read_tags(data: memoryview, position: int, budget: Budget) -> tuple[list[tuple[int, int, int]], int]:
    """The tagged fields at the end of a struct: (tag, start, end) each, and the position behind them."""
    count, position = read_uvarint(data, position)
    if count * 2 > len(data) - position:
        _overrun(count, data, position)
    left = budget[0] - count * OBJECT_COST
    if left < 0:
        _refuse_count()
    budget[0] = left
    tags = []
    size = len(data)
    for _ in range(count):
        tag, position = read_uvarint(data, position)
        length, position = read_uvarint(data, position)
        if length > size - position:
            _overrun(length, data, position)
        tags.append((tag, position, position + length))
        position += length
    return tags, position


def skip_tags(data: memoryview, position: int, budget: Budget) -> int:
    return read_tags(data, position, budget)[1]


def refuse_tag(tag: int) -> NoReturn:
    raise MalformedMessageError(f"Tagged field {tag} is not as long as it says.")
