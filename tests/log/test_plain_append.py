"""The fast path into a log leaves what the ordinary path leaves, and lets nothing in that the other would not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.log.batches import (
    LIMIT,
    NOW,
    Writer,
    append,
    batch,
    contents,
    examples,
    flush,
    log_settings,
    new_log,
    reopened,
    stored,
)
from tests.log.test_partition_log import FullDisk

from qanat.log.admission import admit
from qanat.log.appended import Appended
from qanat.log.partition_log import PartitionLog
from qanat.model.errors import DiskFullError, NotLeaderError, QanatError
from qanat.model.ids import LeaderEpoch
from qanat.wire.kafka.fast_produce import read_fast_header

SIZE = len(batch(2))


def append_fast(log: PartitionLog, content: bytes, leader_epoch: int = 0, now_ms: int = NOW) -> Appended:
    header = read_fast_header(content)
    assert header is not None
    return log.append_fast(memoryview(bytearray(content)), header, leader_epoch, now_ms)


def state(log: PartitionLog) -> object:
    """Everything that an append may change."""
    return (
        stored(log),
        [(one.base_offset, one.size, one.first_append_ms, one.max_timestamp_offset) for one in log.segments],
        [(one.max_timestamp, one.last_batch_position, one.last_batch_offset) for one in log.segments],
        [(one.next_offset, one.last_batch_end_offset) for one in log.segments],
        [(bytes(one.tables.offsets), bytes(one.tables.times)) for one in log.segments],
        [getattr(one.tables, "bytes_since_entry", None) for one in log.segments],
        (log.end_offset, log.epochs.latest, len(log.closed)),
        (log.unflushed_bytes, log.unflushed_records, log.unflushed_since_ms, log.state.unflushed_bytes),
        (log.producers.states, [one.last_used_ms for one in log.producers.states.values()]),
        log.producers.first_unstable_offset(log.high_watermark),
    )


def outcome(
    append: Callable[[PartitionLog, bytes, int, int], Appended], *arguments: Any
) -> Appended | tuple[type[QanatError], str]:
    """Where a batch is, or its refusal."""
    try:
        return append(*arguments)
    except QanatError as fault:
        return type(fault), str(fault)


@examples
@given(
    st.lists(
        st.tuples(st.integers(1, 3), st.integers(6, 7), st.integers(0, 1), st.integers(0, 6), st.booleans()),
        min_size=1,
        max_size=25,
    ),
    st.sampled_from([1, 2**63 - 1]),
    st.booleans(),
)
def test_both_paths_know_the_same_of_producers(
    acts: list[tuple[int, int, int, int, bool]], flush_messages: int, is_verified: bool
) -> None:
    """Retries, gaps, fenced epochs, first writes of transactions and writes outside an open one."""
    ordinary, fast = (new_log(segment_bytes=5 * SIZE, flush_messages=flush_messages) for _ in range(2))
    for log in (ordinary, fast):
        log.producers.requires_verification = is_verified
    for number, (count, producer_id, epoch, sequence, is_transactional) in enumerate(acts):
        content = batch(count, writer=Writer(producer_id, epoch, sequence), is_transactional=is_transactional)
        now_ms = NOW + number
        assert outcome(append_fast, fast, content, 0, now_ms) == outcome(append, ordinary, content, 0, now_ms)
        if number == 7:
            flush(ordinary)
            flush(fast)

    assert state(fast) == state(ordinary)
    assert reopened(fast).producers.states == reopened(ordinary).producers.states


@examples
@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(-1, 50), st.integers(0, 1)), min_size=1, max_size=12),
    st.sampled_from([1, 3, 2**63 - 1]),
)
def test_both_ways_leave_the_same_log(acts: list[tuple[int, int, int]], flush_messages: int) -> None:
    """Through full segments, segments that are too old, and another leader's epoch."""
    long_way, short_way = (
        new_log(segment_bytes=3 * SIZE, segment_ms=40, flush_messages=flush_messages) for _ in range(2)
    )
    for number, (count, later_ms, epoch) in enumerate(acts):
        content = batch(count, timestamps=NOW - 100 + later_ms)
        now_ms, leader_epoch = NOW + 5 * number, epoch + number // 6
        leader_epoch = max(leader_epoch, long_way.epochs.latest)
        assert append_fast(short_way, content, leader_epoch, now_ms) == append(long_way, content, leader_epoch, now_ms)
        if number == 4:
            flush(long_way)
            flush(short_way)

    assert state(short_way) == state(long_way)
    assert contents(reopened(short_way)) == contents(reopened(long_way))


def test_a_write_that_fails_halfway_leaves_the_log_as_it_was() -> None:
    files = FullDisk()
    log = new_log(files)
    append_fast(log, batch(2))
    files.is_full = True
    with pytest.raises(DiskFullError):
        append_fast(log, batch(2), leader_epoch=5)
    assert (log.end_offset, log.epochs.latest, log.state.failure) == (2, 0, None)
    files.is_full = False

    assert append_fast(log, batch(2)).base_offset == 2
    assert len(contents(reopened(log))) == 4


def test_a_setting_may_be_larger_than_any_number_of_kafkas() -> None:
    """Settings of a topic have no upper bound."""
    names = ("segment_ms", "flush_messages", "flush_ms", "max_message_bytes", "message_timestamp_after_max_ms")
    log = new_log(**dict.fromkeys((*names, "index_interval_bytes"), 10**30))
    assert log.admits_fast(SIZE, NOW + 5, NOW)
    assert append_fast(log, batch(2)) == Appended(0, 1, False, False)
    assert append(log, batch(2)) == Appended(2, 3, False, False)


def test_nothing_is_appended_in_the_name_of_a_leadership_that_is_over() -> None:
    log = new_log()
    log.become_follower(LeaderEpoch(3))
    with pytest.raises(NotLeaderError):
        append_fast(log, batch(1), leader_epoch=3)
    assert log.end_offset == 0


@pytest.mark.parametrize(
    ("settings", "is_let_in"),
    [
        ({}, True),
        ({"max_message_bytes": SIZE}, True),
        ({"max_message_bytes": SIZE - 1}, False),
        ({"segment_bytes": SIZE}, True),
        ({"segment_bytes": SIZE - 1}, False),
        ({"message_timestamp_after_max_ms": 5}, True),
        ({"message_timestamp_after_max_ms": 4}, False),
        ({"cleanup_policy": "compact"}, False),
        ({"compression_type": "lz4"}, False),
        ({"message_timestamp_type": "LogAppendTime"}, False),
        ({"message_timestamp_before_max_ms": 2**62}, False),
    ],
)
def test_what_a_topic_refuses_or_changes_is_left_to_those_who_do(settings: dict[str, object], is_let_in: bool) -> None:
    topic = log_settings(**settings)
    content = batch(2, timestamps=NOW + 5)

    assert new_log(**settings).admits_fast(len(content), NOW + 5, NOW) is is_let_in
    if is_let_in:
        assert admit(content, topic, NOW, LIMIT).batch == content
