"""Sparse indexes of a segment: offset to position, timestamp to offset.

Kafka's formats: `.index` has entries of (relative offset, position), 4 bytes
each; `.timeindex` of (timestamp 8, relative offset 4); big-endian, ascending.
An entry names the *last* offset of the batch that starts at its position.

A table is one buffer of packed entries: a bytearray while its segment is
written, a view of the file once it is sealed. The segment's sidecar holds the
table's checksum; a file that does not match it is rebuilt from the log.
"""

from __future__ import annotations

from bisect import bisect_left
from struct import Struct

from qanat.log.files import Buffer

_OFFSET_ENTRY = Struct(">II")
_TIME_ENTRY = Struct(">qI")
_read_entry = _OFFSET_ENTRY.unpack_from

OFFSET_ENTRY_SIZE = _OFFSET_ENTRY.size
TIME_ENTRY_SIZE = _TIME_ENTRY.size

add_offset_entry = _OFFSET_ENTRY.pack
"""(relative offset, position) -> the bytes to append to an offset table."""
add_time_entry = _TIME_ENTRY.pack
"""(timestamp, relative offset) -> the bytes to append to a time table."""


def position_before(table: Buffer, relative_offset: int) -> int:
    """Where to start walking to the batch that holds `relative_offset`: never after it."""
    return _last_entry(table, 0, relative_offset)[1]


def positions_around(table: Buffer, relative_offset: int) -> tuple[int, int | None]:
    """`position_before`, and the position where the walk ends at the latest; None for the end of the segment."""
    number, position = _last_entry(table, 0, relative_offset)
    following = (number + 1) * OFFSET_ENTRY_SIZE
    return position, _read_entry(table, following)[1] if following < len(table) else None


def batch_start_before(table: Buffer, position: int) -> int:
    """The last indexed start of a batch at or before `position`."""
    return _last_entry(table, 1, position)[1]


def number_of_entry(table: Buffer, position: int) -> int:
    """Number of the last entry for a batch that starts at or before `position`; -1 where there is none."""
    return _last_entry(table, 1, position)[0]


def last_offset_at(table: Buffer, position: int) -> int | None:
    """The relative last offset of the batch that starts at `position`, if it has an entry."""
    number, found = _last_entry(table, 1, position)
    return int(_read_entry(table, number * OFFSET_ENTRY_SIZE)[0]) if number >= 0 and found == position else None


def _last_entry(table: Buffer, field: int, wanted: int) -> tuple[int, int]:
    """Number and position of the last entry with a field of at most `wanted`; -1 and 0 where there is none.

    Batches of a topic are of similar size, so the entry is close to its proportional place in the table: probing
    around there takes three or four steps where bisecting a large table takes fifteen.
    """
    last = len(table) // OFFSET_ENTRY_SIZE - 1
    if last < 0:
        return -1, 0
    entry: tuple[int, int] = _read_entry(table, last * OFFSET_ENTRY_SIZE)
    if entry[field] <= wanted:
        return last, entry[1]
    low, high, step = -1, last, 1
    probe = max(wanted, 0) * last // entry[field]
    position = 0
    while high - low > 1:
        entry = _read_entry(table, probe * OFFSET_ENTRY_SIZE)
        if entry[field] <= wanted:
            low, position = probe, entry[1]
            probe = min(low + step, (low + high + 1) // 2)
        else:
            high = probe
            probe = max(high - step, (low + high) // 2)
        step *= 2
    return low, position


def offset_before_timestamp(table: Buffer, timestamp: int) -> int:
    """A relative offset before which every record is older than `timestamp`; 0 where none is known."""

    def timestamp_at(entry: int) -> int:
        at: int = _TIME_ENTRY.unpack_from(table, entry * TIME_ENTRY_SIZE)[0]
        return at

    entry = bisect_left(range(len(table) // TIME_ENTRY_SIZE), timestamp, key=timestamp_at) - 1
    return 0 if entry < 0 else int(_TIME_ENTRY.unpack_from(table, entry * TIME_ENTRY_SIZE)[1])


def last_timestamp(table: Buffer) -> int:
    """The newest timestamp in the table; -1 where it is empty."""
    return int(_TIME_ENTRY.unpack_from(table, len(table) - TIME_ENTRY_SIZE)[0]) if table else -1


def last_time_offset(table: Buffer) -> int:
    """The relative offset of the batch with the newest timestamp; -1 where the table is empty."""
    return int(_TIME_ENTRY.unpack_from(table, len(table) - TIME_ENTRY_SIZE)[1]) if table else -1
