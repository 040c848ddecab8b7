"""Appending: offsets, rolling, replication, markers and bounds."""

from __future__ import annotations

import pytest
from tests.log.batches import (
    NOW,
    Writer,
    append,
    batch,
    batches_in,
    contents,
    end_transaction,
    fill,
    flush,
    marker,
    new_log,
    pairs_of,
    reopened,
    replicate,
    stored,
)

from qanat.adapters.memory_files import MemoryFile, MemoryFiles
from qanat.log.files import Buffer
from qanat.model.errors import (
    CoordinatorFencedError,
    CorruptBatchError,
    DiskFullError,
    InvalidProducerEpochError,
    OffsetOutOfRangeError,
)
from qanat.wire.batch_header import read_header

SIZE = len(batch(2))


def test_offsets_are_given_out_one_after_the_other_and_never_twice() -> None:
    log = new_log()
    assert [append(log, batch(count)).base_offset for count in (3, 1, 2)] == [0, 3, 4]
    fourth = append(log, batch(5))
    assert (fourth.base_offset, fourth.last_offset) == (6, 10)
    assert log.end_offset == 11
    assert [record.offset for record in contents(log)] == list(range(11))


def test_a_batch_is_stored_as_it_came_but_for_its_offset_and_epoch() -> None:
    log = new_log()
    append(log, batch(2))
    content = batch(3)
    append(log, memoryview(content), leader_epoch=9)
    header, kept = stored(log)[1]
    assert (header.base_offset, header.leader_epoch) == (2, 9)
    assert kept[16:] == content[16:]
    assert content == batch(3), "the sender's bytes are not written"


def test_a_segment_is_full_before_it_would_grow_beyond_its_bound() -> None:
    log = new_log(segment_bytes=3 * SIZE)
    fill(log, 7, 2)
    assert [segment.base_offset for segment in log.segments] == [0, 6, 12]
    assert [segment.size for segment in log.segments] == [3 * SIZE, 3 * SIZE, SIZE]
    snug = new_log(segment_bytes=3 * SIZE - 1)
    fill(snug, 7, 2)
    assert [segment.base_offset for segment in snug.segments] == [0, 4, 8, 12]


def test_a_segment_is_closed_when_its_first_record_is_old_enough() -> None:
    log = new_log(segment_ms=1000)
    append(log, batch(), now_ms=NOW)
    append(log, batch(), now_ms=NOW + 999)
    append(log, batch(), now_ms=NOW + 1000)
    append(log, batch(), now_ms=NOW + 1999)
    append(log, batch(), now_ms=NOW + 2000)
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4]


def test_c71_a_clock_that_jumps_back_closes_nothing() -> None:
    log = new_log(segment_ms=1000)
    for now in (NOW, NOW - 10_000, NOW + 5):
        append(log, batch(), now_ms=now)
    assert len(log.segments) == 1


def test_a_compacted_topic_closes_segments_early_enough_for_its_greatest_lag() -> None:
    compacted = new_log(segment_ms=1000, max_compaction_lag_ms=100, cleanup_policy="compact")
    plain = new_log(segment_ms=1000, max_compaction_lag_ms=100)
    for log in (compacted, plain):
        append(log, batch(), now_ms=NOW)
        append(log, batch(), now_ms=NOW + 100)
    assert (len(compacted.segments), len(plain.segments)) == (2, 1)


def test_the_age_of_a_segment_counts_on_after_a_restart() -> None:
    log = new_log(segment_ms=1000)
    append(log, batch(timestamps=NOW), now_ms=NOW)
    flush(log)
    opened = reopened(log)
    append(opened, batch(timestamps=NOW + 1000), now_ms=NOW + 1000)
    assert len(opened.segments) == 2


class FullDisk(MemoryFiles):
    """A disk that has no room for what is written while `is_full`."""

    is_full = False

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        file = super().open(path, create=create)
        file.__class__ = FullFile
        return file


class FullFile(MemoryFile):
    __slots__ = ()

    def write(self, chunks: tuple[Buffer, ...], position: int) -> int:  # type: ignore[override]
        if isinstance(self._files, FullDisk) and self._files.is_full:
            super().write((bytes(chunks[0])[:7],), position)
            raise DiskFullError("no room")
        return super().write(chunks, position)


def test_a_write_that_fails_halfway_leaves_the_log_as_it_was() -> None:
    files = FullDisk()
    log = new_log(files)
    append(log, batch(2, writer=Writer(7)))
    files.is_full = True
    with pytest.raises(DiskFullError):
        append(log, batch(2, writer=Writer(7, 0, 2)), leader_epoch=5)
    assert log.end_offset == 2
    assert log.epochs.latest == 0
    files.is_full = False
    assert append(log, batch(2, writer=Writer(7, 0, 2))).base_offset == 2
    assert len(contents(reopened(log))) == 4


# Flushing as part of the bargain


@pytest.mark.parametrize(
    ("messages", "due"), [(1, [True, True, True]), (4, [False, True, True]), (5, [False, False, True])]
)
def test_a_flush_is_due_after_so_many_records(messages: int, due: list[bool]) -> None:
    log = new_log(flush_messages=messages)
    assert [append(log, batch(2)).is_flush_due for _ in range(3)] == due
    flush(log)
    assert append(log, batch(2)).is_flush_due is (messages == 1)


# Replication


def test_a_follower_keeps_the_leaders_offsets_and_epochs() -> None:
    leader = new_log(segment_bytes=3 * SIZE)
    for epoch in (0, 0, 2, 2, 5):
        append(leader, batch(2, writer=Writer(7, epoch)), leader_epoch=epoch)
    follower = new_log(segment_bytes=2 * SIZE)
    offset = 0
    while offset < leader.end_offset:
        read = leader.read(offset, 2 * SIZE)
        assert follower.append_replicated(b"".join(read.views()), NOW) > 0
        offset = read.next_offset
    assert [content for _, content in stored(follower)] == [content for _, content in stored(leader)]
    assert follower.epochs == leader.epochs
    assert follower.producers.states == leader.producers.states


def test_a_follower_takes_gaps_but_never_goes_back() -> None:
    log = new_log()
    assert log.append_replicated(batch(2, at=5) + batch(1, at=20), NOW) == 3
    assert log.end_offset == 21
    for wrong in (0, 19, 20):
        with pytest.raises(CorruptBatchError, match=f"offset {wrong} "):
            log.append_replicated(batch(2, at=wrong), NOW)
    assert [record.offset for record in contents(log)] == [5, 6, 20]


@pytest.mark.parametrize("cut", [1, 30, 61])
def test_a_follower_refuses_what_is_no_batch(cut: int) -> None:
    log = new_log()
    with pytest.raises(CorruptBatchError, match="t-0: what the leader sent is no batch"):
        log.append_replicated(batch(2) + batch(2, at=2)[:-cut], NOW)
    assert log.end_offset == 2, "what came before is kept"
    rotten = bytearray(batch(2, at=2))
    rotten[-1] ^= 1
    with pytest.raises(CorruptBatchError, match="checksum"):
        log.append_replicated(bytes(rotten), NOW)


def test_a_follower_of_a_compacted_leader_can_jump_further_than_a_segment_counts() -> None:
    log = new_log(index_interval_bytes=0)
    far = 3 * 2**31
    log.append_replicated(batch(1, at=2**31 + 5), NOW)
    log.append_replicated(batch(1, at=2**31 + 6) + batch(1, at=far), NOW)
    log.append_replicated(batch(1, at=far + 1) + batch(1, at=far + 2**31 - 2), NOW)
    flush(log)
    expected = [2**31 + 5, 2**31 + 6, far, far + 1, far + 2**31 - 2]
    for known in (log, reopened(log)):
        assert [record.offset for record in contents(known)] == expected
        assert known.damage == []


def test_a_follower_replays_markers() -> None:
    log = new_log()
    log.append_replicated(batch(2, at=0, writer=Writer(7), is_transactional=True, leader_epoch=0), NOW)
    log.advance_high_watermark(2)
    assert log.last_stable_offset == 0
    log.append_replicated(marker(7, at=2, is_commit=False), NOW)
    assert log.last_stable_offset == 0
    log.advance_high_watermark(3)
    assert log.last_stable_offset == 3
    assert [tuple(entry) for entry in log.aborted_transactions(0, 3)] == [(7, 0, 2, 3)]


# Transactions


def test_the_last_stable_offset_waits_for_the_marker_and_for_its_replication() -> None:
    log = new_log()
    fill(log, 1)
    append(log, batch(2, writer=Writer(7), is_transactional=True))
    append(log, batch(1, writer=Writer(8), is_transactional=True))
    assert log.last_stable_offset == log.high_watermark == 0
    log.advance_high_watermark(log.end_offset)
    assert log.last_stable_offset == 1
    assert end_transaction(log, 7, is_commit=True) == 4
    assert log.last_stable_offset == 1, "the marker is not replicated"
    log.advance_high_watermark(5)
    assert log.last_stable_offset == 3
    end_transaction(log, 8, is_commit=False)
    log.advance_high_watermark(6)
    assert log.last_stable_offset == 6


@pytest.mark.parametrize("segment_bytes", [100, 10_000])
def test_a_decision_above_the_high_watermark_is_still_open_after_a_restart(segment_bytes: int) -> None:
    """Also where a snapshot, which knows of no high watermark, was made after the marker."""
    log = new_log(segment_bytes=segment_bytes)
    append(log, batch(1, writer=Writer(7), is_transactional=True))
    end_transaction(log, 7, is_commit=False)
    fill(log, 3)
    flush(log)
    log.advance_high_watermark(1)
    opened = reopened(log)
    assert (opened.last_stable_offset, opened.high_watermark) == (0, 1)
    opened.advance_high_watermark(2)
    assert opened.last_stable_offset == 2


def test_the_last_stable_offset_is_never_before_the_start_of_the_log() -> None:
    log = new_log()
    append(log, batch(2, writer=Writer(7), is_transactional=True))
    fill(log, 3)
    replicate(log)
    log.advance_log_start(4)
    assert log.last_stable_offset == 4


def test_a_marker_is_refused_before_it_is_written() -> None:
    log = new_log()
    append(log, batch(writer=Writer(7, 3), is_transactional=True))
    log.append_marker(7, 3, 5, 0, NOW, is_commit=True)
    with pytest.raises(InvalidProducerEpochError):
        log.append_marker(7, 2, 5, 0, NOW, is_commit=True)
    with pytest.raises(CoordinatorFencedError):
        log.append_marker(7, 3, 4, 0, NOW, is_commit=True)
    assert log.end_offset == 2


def test_a_marker_that_is_there_is_written_again_only_when_that_is_asked_for() -> None:
    log = new_log()
    append(log, batch(writer=Writer(7, 3), is_transactional=True))
    log.append_marker(7, 3, 5, 0, NOW, is_commit=True)
    assert log.append_marker(7, 3, 5, 0, NOW, is_commit=True).is_duplicate
    assert not log.append_marker(7, 3, 5, 0, NOW, is_commit=True, is_repeated=True).is_duplicate
    assert log.end_offset == 3
    replicate(log)
    assert log.last_stable_offset == 3


def test_aborted_transactions_are_named_where_a_read_meets_them() -> None:
    log = new_log(segment_bytes=3 * SIZE)
    for number in range(4):
        append(log, batch(2, writer=Writer(7, 0, 2 * number), is_transactional=True))
        fill(log, 2, 2)
        end_transaction(log, 7, is_commit=number == 2)
    flush(log)
    extents = [(7, 0, 6), (7, 7, 13), (7, 21, 27)]

    def named(offset: int, end: int) -> list[tuple[int, ...]]:
        return [tuple(entry[:3]) for entry in log.aborted_transactions(offset, end)]

    assert named(0, 28) == extents
    assert named(7, 28) == extents[1:]
    assert named(6, 7) == extents[:1]
    assert named(14, 21) == []
    assert named(14, 22) == extents[2:]
    assert reopened(log).aborted_transactions(0, 28) == log.aborted_transactions(0, 28)


def test_interleaved_aborted_transactions_are_all_named_though_a_later_one_ended_first() -> None:
    log = new_log()
    append(log, batch(writer=Writer(1), is_transactional=True))
    append(log, batch(writer=Writer(2), is_transactional=True))
    append(log, batch(writer=Writer(3), is_transactional=True))
    end_transaction(log, 3, is_commit=False)
    end_transaction(log, 1, is_commit=False)
    end_transaction(log, 2, is_commit=False)
    assert [tuple(entry) for entry in log.aborted_transactions(0, 3)] == [(3, 2, 3, 0), (1, 0, 4, 1), (2, 1, 5, 6)]
    assert [entry.producer_id for entry in log.aborted_transactions(0, 1)] == [1]


# Bounds


def test_records_are_deleted_up_to_the_high_watermark_and_not_further() -> None:
    log = new_log()
    fill(log, 5, 2)
    log.advance_high_watermark(6)
    with pytest.raises(OffsetOutOfRangeError, match="up to the high watermark 6, not up to 7"):
        log.advance_log_start(7)
    with pytest.raises(OffsetOutOfRangeError):
        log.advance_log_start(-1)
    assert log.advance_log_start(5)
    assert not log.advance_log_start(5)
    assert not log.advance_log_start(2)
    assert log.log_start_offset == 5
    assert [record.offset for record in contents(log)] == [5, 6, 7, 8, 9]


def test_the_high_watermark_never_retreats_and_never_leaves_the_log() -> None:
    log = new_log()
    fill(log, 5)
    log.advance_high_watermark(3)
    log.advance_high_watermark(1)
    assert log.high_watermark == 3
    with pytest.raises(AssertionError):
        log.advance_high_watermark(6)


def test_a_log_says_what_it_is() -> None:
    log = new_log(segment_bytes=2 * SIZE)
    fill(log, 3, 2)
    assert repr(log) == "<PartitionLog t-0 0..6 flushed 0, 2 segments>"
    assert repr(log.active) == f"<Segment 4..6 {SIZE} bytes open>"
    assert log.size == 3 * SIZE
    assert pairs_of(log) == pairs_of(reopened(log))
    assert next(batches_in(log.read(0, 1).views()[0]))[0].base_offset == 0


def test_a_writable_view_gets_its_place_in_the_log_and_bytes_stay_as_they_came() -> None:
    log = new_log()
    append(log, batch(3))
    sent = bytearray(batch(2))
    before = bytes(sent)

    append(log, sent)
    assert sent == before, "a bytearray is not ours to write to"
    append(log, memoryview(sent))

    assert read_header(sent).base_offset == 5, "a writable view is leave to set the place right there"
    assert [content[16:] for _, content in stored(log)[-2:]] == [before[16:], before[16:]]
