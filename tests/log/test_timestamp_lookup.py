"""Looking records up by time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.log.batches import LIMIT, NOW, append, batch, examples, flush, new_log, overwrite, replicate

from qanat.log.timestamp_lookup import TimestampedOffset, find_timestamp, newest_timestamp
from qanat.wire.compression import Codec


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (0, (10, 0)),
        (10, (10, 0)),
        (11, (20, 1)),
        (25, (30, 2)),
        (30, (30, 2)),
        (31, (40, 4)),
        (40, (40, 4)),
        (41, None),
    ],
)
def test_the_first_record_as_new_is_found_inside_its_batch(
    codec: Codec, wanted: int, expected: tuple[int, int] | None
) -> None:
    log = new_log()
    append(log, batch(3, timestamps=[10, 20, 30], codec=codec))
    append(log, batch(2, timestamps=[15, 40], codec=codec))
    assert find_timestamp(log, wanted, LIMIT) == (None if expected is None else TimestampedOffset(*expected))


@examples
@given(
    timestamps=st.lists(st.lists(st.integers(NOW, NOW + 30), min_size=1, max_size=4), min_size=1, max_size=20),
    wanted=st.integers(NOW - 1, NOW + 31),
    start=st.integers(0, 30),
    segment_bytes=st.integers(150, 1000),
)
def test_timestamps_out_of_order_are_found_as_by_walking(
    timestamps: list[list[int]], wanted: int, start: int, segment_bytes: int
) -> None:
    log = new_log(segment_bytes=segment_bytes, index_interval_bytes=120)
    for group in timestamps:
        append(log, batch(len(group), timestamps=group))
    replicate(log)
    log.advance_log_start(min(start, log.end_offset))
    flat = [timestamp for group in timestamps for timestamp in group]
    expected = next(
        (
            TimestampedOffset(timestamp, offset)
            for offset, timestamp in enumerate(flat)
            if timestamp >= wanted and offset >= start
        ),
        None,
    )
    assert find_timestamp(log, wanted, LIMIT) == expected


def test_an_empty_log_has_no_record_of_any_time() -> None:
    log = new_log()
    assert find_timestamp(log, 0, LIMIT) is None
    assert newest_timestamp(log) == -1


def test_records_with_log_append_time_are_found_by_the_brokers_clock() -> None:
    log = new_log(message_timestamp_type="LogAppendTime")
    append(log, batch(3, timestamps=5), now_ms=NOW)
    append(log, batch(3, timestamps=NOW * 2), now_ms=NOW + 10)
    assert find_timestamp(log, 6, LIMIT) == TimestampedOffset(NOW, 0)
    assert find_timestamp(log, NOW + 1, LIMIT) == TimestampedOffset(NOW + 10, 3)
    assert find_timestamp(log, NOW + 11, LIMIT) is None


def test_the_newest_is_the_first_of_those_that_share_the_largest_timestamp() -> None:
    log = new_log(segment_bytes=200)
    for timestamp in (5, 30, 7, 30, 2):
        append(log, batch(2, timestamps=[1, timestamp]))
    flush(log)
    newest = newest_timestamp(log)
    assert find_timestamp(log, newest, LIMIT) == TimestampedOffset(30, 3)


def test_damage_is_stepped_over() -> None:
    log = new_log(segment_bytes=100_000)
    sizes = [len(batch(2, timestamps=timestamp)) for timestamp in (10, 20, 30)]
    for timestamp in (10, 20, 30):
        append(log, batch(2, timestamps=timestamp))
    log.roll()
    flush(log)
    overwrite(log, 0, sizes[0], b"\xff" * sizes[1])
    assert find_timestamp(log, 15, LIMIT) == TimestampedOffset(30, 4)
