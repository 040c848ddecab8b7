"""The reader's parts: the generated modules call them for everything but fixed-size fields.

A reader takes the frame, a position and a budget, and returns a value and the
position behind it. The rules that protect the broker from clients:

Rule 1: a declared length is compared with the bytes left before anything is
allocated for it, and a declared count with the fewest bytes that so many
elements can take.
Rule 2: Python objects are paid for from a budget, in units of about
200 ns: each element of an array has a weight, which the generator counts from its
fields. A request may spend `FREE_UNITS`, a unit more for every four bytes, and
`REQUEST_UNITS` at most. So the time per byte is bounded, whatever a request
contains, and so is the number of its elements. A caller with little time may allow less,
and gets `TooManyElementsError` where it is not enough.
Rule 3: running over the end raises `struct.error` or `IndexError`, which
`read_message` turns into `MalformedMessageError`. Readers are not called
any other way.

Tagged fields (KIP-482) are read as Kafka reads them: unknown tags are
skipped, any order is accepted, and of a repeated tag the last one counts.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NoReturn, TypeAlias, TypeVar

from qanat.model.errors import MalformedMessageError, TooManyElementsError

T = TypeVar("T")

# The remaining budget, as a list of one number that all readers of a message share.
Budget: TypeAlias = list[int]
Reader: TypeAlias = Callable[[memoryview, int, Budget], tuple[T, int]]

# No element weighs less than one unit: this is also the largest number of elements of a request.
REQUEST_UNITS = 200_000
FREE_UNITS = 65_536
BYTES_PER_UNIT = 4
# Responses and internal records come from brokers that we chose: their size is limit enough.
UNBOUNDED = 1 << 40

STRING_WEIGHT = 2
TAG_WEIGHT = 2

LONGEST_STRING_BYTES = 32_767

_unpack_length16 = struct.Struct(">h").unpack_from
_unpack_length32 = struct.Struct(">i").unpack_from
# Most values are short: one call skips the length, checks the bounds and takes the bytes.
_SHORT = 128
_take = tuple(struct.Struct(f"{length}s").unpack_from for length in range(_SHORT))
_FEW = 17
_SIZES = {letter: struct.calcsize(f">{letter}") for letter in "bhiqd"}
_take_numbers = {
    letter: tuple(struct.Struct(f">{count}{letter}").unpack_from for count in range(_FEW)) for letter in _SIZES
}


def read_message(read: Reader[T], data: memoryview | bytes, position: int, most_units: int) -> T:
    """Read a message; every fault in it is one kind of error.

    With a bound it is a request, which may spend so much at most, and no more than its size
    allows. Bytes after the last field of a request are ignored, as Kafka ignores them:
    librdkafka sends three when it asks for all topics in a flexible version. Anything else
    must end where the data ends.
    """
    view = data if isinstance(data, memoryview) else memoryview(data)
    size = len(view)
    is_request = most_units != UNBOUNDED
    budget = most_units
    if is_request:
        budget = FREE_UNITS + size // BYTES_PER_UNIT
        if budget > most_units:
            budget = most_units
    try:
        message, position = read(view, position, [budget])
    except (struct.error, IndexError):
        raise MalformedMessageError(f"A message of {size} bytes ends before its last field.") from None
    except UnicodeDecodeError:
        raise MalformedMessageError("A string in a message is not UTF-8.") from None
    if position != size and not is_request:
        raise MalformedMessageError(f"A message ends at byte {position}, but {size} bytes were sent.")
    return message


def _overrun(length: int, data: memoryview, position: int) -> NoReturn:
    raise MalformedMessageError(f"A field declares {length} bytes or elements; {len(data) - position} bytes are left.")


def _refuse_length(length: int) -> NoReturn:
    if length == -1:
        raise MalformedMessageError("A field is null that may not be.")
    raise MalformedMessageError(f"A field declares a length of {length}.")


def _refuse_count() -> NoReturn:
    raise TooManyElementsError("A message holds more elements than its size may carry.")


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


# Arrays of structs. `least_bytes` is the size of an empty element, `weight` its cost.


def _elements(
    data: memoryview, position: int, budget: Budget, least_bytes: int, weight: int, read: Reader[T], count: int
) -> tuple[list[T], int]:
    if count <= 0:
        if count < 0:
            _refuse_length(count)
        return [], position
    if count * least_bytes > len(data) - position:
        _overrun(count, data, position)
    left = budget[0] - count * weight
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
    data: memoryview, position: int, budget: Budget, least_bytes: int, weight: int, read: Reader[T]
) -> tuple[list[T], int]:
    (count,) = _unpack_length32(data, position)
    return _elements(data, position + 4, budget, least_bytes, weight, read, count)


def read_nullable_array(
    data: memoryview, position: int, budget: Budget, least_bytes: int, weight: int, read: Reader[T]
) -> tuple[list[T] | None, int]:
    (count,) = _unpack_length32(data, position)
    if count == -1:
        return None, position + 4
    return _elements(data, position + 4, budget, least_bytes, weight, read, count)


def read_compact_array(
    data: memoryview, position: int, budget: Budget, least_bytes: int, weight: int, read: Reader[T]
) -> tuple[list[T], int]:
    count = data[position]
    if count == 1:
        return [], position + 1
    if count < 0x80:
        return _elements(data, position + 1, budget, least_bytes, weight, read, count - 1)
    count, position = read_uvarint(data, position)
    return _elements(data, position, budget, least_bytes, weight, read, count - 1)


def read_nullable_compact_array(
    data: memoryview, position: int, budget: Budget, least_bytes: int, weight: int, read: Reader[T]
) -> tuple[list[T] | None, int]:
    if not data[position]:
        return None, position + 1
    return read_compact_array(data, position, budget, least_bytes, weight, read)


def read_nullable_struct(data: memoryview, position: int, budget: Budget, read: Reader[T]) -> tuple[T | None, int]:
    """KIP-893: one signed byte in front of the struct, negative for null."""
    if data[position] > 0x7F:
        return None, position + 1
    return read(data, position + 1, budget)


def read_nullable_tagged_struct(
    data: memoryview, position: int, budget: Budget, read: Reader[T]
) -> tuple[T | None, int]:
    """In a tagged field the number in front of the struct is unsigned, and 0 for null."""
    if data[position] == 0:
        return None, position + 1
    return read(data, position + 1, budget)


# Arrays of strings


def _read_string_element(data: memoryview, position: int, budget: Budget) -> tuple[str, int]:
    return read_string(data, position)


def _read_compact_string_element(data: memoryview, position: int, budget: Budget) -> tuple[str, int]:
    return read_compact_string(data, position)


def read_strings(data: memoryview, position: int, budget: Budget) -> tuple[list[str], int]:
    return read_array(data, position, budget, 2, STRING_WEIGHT, _read_string_element)


def read_nullable_strings(data: memoryview, position: int, budget: Budget) -> tuple[list[str] | None, int]:
    return read_nullable_array(data, position, budget, 2, STRING_WEIGHT, _read_string_element)


def read_compact_strings(data: memoryview, position: int, budget: Budget) -> tuple[list[str], int]:
    return read_compact_array(data, position, budget, 1, STRING_WEIGHT, _read_compact_string_element)


def read_nullable_compact_strings(data: memoryview, position: int, budget: Budget) -> tuple[list[str] | None, int]:
    return read_nullable_compact_array(data, position, budget, 1, STRING_WEIGHT, _read_compact_string_element)


# Arrays of numbers; `letter` is the element's code in `struct`.


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
    left = budget[0] - count * TAG_WEIGHT
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
