"""Sparse tables: bytes as Kafka's tools read them, answers as brute force gives them."""

from __future__ import annotations

import itertools
from bisect import bisect_right

from hypothesis import given
from hypothesis import strategies as st
from tests.log.batches import NOW, append, batch, examples, new_log

from qanat.log.segments.indexes import (
    OFFSET_ENTRY_SIZE,
    TIME_ENTRY_SIZE,
    add_offset_entry,
    add_time_entry,
    batch_start_before,
    last_timestamp,
    offset_before_timestamp,
    position_before,
)

rising = st.lists(st.integers(0, 2**31 - 1), unique=True, max_size=30).map(sorted)


def test_entries_are_kafkas_bytes() -> None:
    assert add_offset_entry(5, 0x01020304) == bytes.fromhex("00000005 01020304")
    assert add_time_entry(NOW, 7) == NOW.to_bytes(8, "big") + bytes.fromhex("00000007")
    assert OFFSET_ENTRY_SIZE == 8
    assert TIME_ENTRY_SIZE == 12


def test_empty_tables_send_every_search_to_the_start() -> None:
    assert position_before(b"", 100) == 0
    assert batch_start_before(b"", 100) == 0
    assert offset_before_timestamp(b"", NOW) == 0
    assert last_timestamp(b"") == -1


@examples
@given(offsets=rising, positions=rising, wanted=st.integers(0, 2**31 - 1))
def test_positions_are_found_as_by_walking_the_whole_table(
    offsets: list[int], positions: list[int], wanted: int
) -> None:
    entries = list(zip(offsets, positions, strict=False))
    table = b"".join(add_offset_entry(*entry) for entry in entries)
    assert position_before(table, wanted) == max((at for offset, at in entries if offset <= wanted), default=0)
    assert batch_start_before(table, wanted) == max((at for _, at in entries if at <= wanted), default=0)


@examples
@given(timestamps=rising, offsets=rising, wanted=st.integers(0, 2**31 - 1))
def test_timestamps_are_found_as_by_walking_the_whole_table(
    timestamps: list[int], offsets: list[int], wanted: int
) -> None:
    entries = list(zip(timestamps, offsets, strict=False))
    table = b"".join(add_time_entry(*entry) for entry in entries)
    older = [offset for timestamp, offset in entries if timestamp < wanted]
    assert offset_before_timestamp(table, wanted) == (older[-1] if older else 0)
    assert last_timestamp(table) == (entries[-1][0] if entries else -1)


@examples
@given(sizes=st.lists(st.integers(1, 5), min_size=1, max_size=40), step=st.integers(0, 400))
def test_an_entry_names_the_last_offset_of_the_batch_that_starts_at_its_position(sizes: list[int], step: int) -> None:
    """What Kafka's DumpLogSegments --index-sanity-check looks at."""
    log = new_log(index_interval_bytes=step)
    starts: dict[int, int] = {}
    for size in sizes:
        position = log.active.size
        starts[position] = append(log, batch(size)).last_offset
    table = bytes(log.active.tables.offsets)
    entries = [
        (int.from_bytes(table[at : at + 4], "big"), int.from_bytes(table[at + 4 : at + 8], "big"))
        for at in range(0, len(table), OFFSET_ENTRY_SIZE)
    ]
    assert all(starts[position] == offset for offset, position in entries)
    assert entries == sorted(set(entries))
    gaps = [second[1] - first[1] for first, second in zip([(0, 0), *entries], entries, strict=False)]
    assert all(gap > step for gap in gaps)
    for offset in range(log.end_offset):
        ends = list(starts.values())
        holder = list(starts)[bisect_right(ends, offset - 1)]
        assert log.active.position_of(offset) == holder


@examples
@given(timestamps=st.lists(st.integers(NOW, NOW + 50), min_size=1, max_size=40))
def test_the_time_table_rises_strictly_and_names_the_batch_that_brought_the_time(timestamps: list[int]) -> None:
    log = new_log(index_interval_bytes=0)
    for timestamp in timestamps:
        append(log, batch(1, timestamps=timestamp))
    log.active.describe()
    table = bytes(log.active.tables.times)
    entries = [
        (int.from_bytes(table[at : at + 8], "big"), int.from_bytes(table[at + 8 : at + 12], "big"))
        for at in range(0, len(table), TIME_ENTRY_SIZE)
    ]
    assert all(earlier[0] < later[0] and earlier[1] < later[1] for earlier, later in itertools.pairwise(entries))
    for timestamp, offset in entries:
        assert timestamps[offset] == timestamp == max(timestamps[: offset + 1])
    assert entries[-1] == (max(timestamps), timestamps.index(max(timestamps)))


@examples
@given(timestamps=st.lists(st.integers(NOW, NOW + 20), min_size=1, max_size=30), wanted=st.integers(NOW - 2, NOW + 22))
def test_the_first_batch_as_new_as_a_timestamp_is_found_as_by_walking(timestamps: list[int], wanted: int) -> None:
    log = new_log(index_interval_bytes=150)
    positions = []
    for timestamp in timestamps:
        positions.append(log.active.size)
        append(log, batch(1, timestamps=timestamp))
    expected = next(
        (position for position, timestamp in zip(positions, timestamps, strict=True) if timestamp >= wanted),
        log.active.size,
    )
    assert log.active.position_of_timestamp(wanted) == expected
