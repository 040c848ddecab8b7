"""Expiry by age and by size, deletion of records, and what never goes."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from tests.log.batches import (
    FOLDER,
    NOW,
    Writer,
    append,
    batch,
    compact,
    contents,
    fill,
    flush,
    new_log,
    pairs_of,
    reopened,
    replicate,
)

from qanat.log.background_jobs import run_now
from qanat.log.files import File
from qanat.log.partition_log import PartitionLog
from qanat.log.retention import begin_retention
from qanat.model.errors import DiskFullError
from qanat.model.ids import LeaderEpoch

SIZE = len(batch(2))


def timed_log(timestamps: Iterable[int], **settings: object) -> PartitionLog:
    """Two batches with one timestamp to a segment, replicated."""
    log = new_log(segment_bytes=2 * SIZE, **settings)
    for timestamp in timestamps:
        append(log, batch(2, timestamps=timestamp))
        append(log, batch(2, timestamps=timestamp))
    replicate(log)
    return log


def expire(log: PartitionLog, now_ms: int) -> None:
    run_now(begin_retention(log, now_ms))


def test_segments_go_when_their_newest_record_is_too_old() -> None:
    log = timed_log([NOW, NOW + 10, NOW + 20, NOW + 30], retention_ms=1000)
    expire(log, NOW + 1000)
    assert log.log_start_offset == 0
    expire(log, NOW + 1001)
    assert log.log_start_offset == 4
    expire(log, NOW + 1021)
    assert log.log_start_offset == 12
    assert pairs_of(reopened(log)) == pairs_of(log)


def test_a_segment_stays_for_its_newest_record_and_keeps_those_after_it() -> None:
    log = timed_log([NOW, NOW + 5000, NOW, NOW], retention_ms=1000)
    expire(log, NOW + 2000)
    assert log.log_start_offset == 4


def test_an_idle_log_expires_to_its_last_record() -> None:
    log = timed_log([NOW, NOW], retention_ms=1000)
    expire(log, NOW + 2000)
    assert log.log_start_offset == 4, "the last segment is closed first"
    flush(log)
    expire(log, NOW + 2000)
    assert log.log_start_offset == log.end_offset == 8
    assert contents(log) == []
    expire(log, NOW + 3000)
    assert append(log, batch()).base_offset == 8
    flush(log)
    assert [record.offset for record in contents(reopened(log))] == [8]


def test_the_log_shrinks_to_its_bound_but_keeps_whole_segments_within_it() -> None:
    for bound in range(0, 9 * SIZE, SIZE // 2):
        log = timed_log([NOW] * 4, retention_bytes=bound)
        size = log.size
        expire(log, NOW)
        assert log.size >= min(size, bound)
        assert log.size < bound + 2 * SIZE or len(log.segments) == 1


def test_a_segment_goes_when_what_is_left_just_reaches_the_bound() -> None:
    for bound, start in [(6 * SIZE + 1, 0), (6 * SIZE, 4), (4 * SIZE, 8)]:
        log = timed_log([NOW] * 4, retention_bytes=bound)
        expire(log, NOW)
        assert log.log_start_offset == start


def test_without_limits_nothing_goes() -> None:
    log = timed_log([NOW] * 4, retention_ms=-1, retention_bytes=-1)
    assert begin_retention(log, NOW * 2) is None
    assert begin_retention(timed_log([NOW] * 4, retention_ms=0, cleanup_policy="compact"), NOW * 2) is None


def test_nothing_above_the_high_watermark_goes() -> None:
    log = new_log(segment_bytes=2 * SIZE, retention_ms=1000, retention_bytes=0)
    fill(log, 8, 2)
    flush(log)
    expire(log, NOW + 9999)
    assert log.log_start_offset == 0
    log.advance_high_watermark(7)
    expire(log, NOW + 9999)
    assert log.log_start_offset == 4
    log.advance_high_watermark(8)
    expire(log, NOW + 9999)
    assert log.log_start_offset == 8


def test_deleted_records_take_whole_segments_with_them() -> None:
    log = timed_log([NOW] * 4, cleanup_policy="compact")
    log.advance_log_start(7)
    expire(log, NOW)
    assert [segment.base_offset for segment in log.segments] == [4, 8, 12]
    assert log.log_start_offset == 7
    log.advance_log_start(8)
    expire(log, NOW)
    assert [segment.base_offset for segment in log.segments] == [8, 12]
    opened = reopened(log)
    assert opened.log_start_offset == 8
    assert pairs_of(opened) == pairs_of(log)


def test_the_files_and_old_snapshots_of_a_segment_go_with_it() -> None:
    log = new_log(segment_bytes=2 * SIZE, retention_ms=1000)
    for number in range(8):
        append(log, batch(2, writer=Writer(7, 0, 2 * number)))
    replicate(log)
    log.roll()
    flush(log)
    expire(log, NOW + 5000)
    left = [name for name in log.files.list(FOLDER) if not name.startswith("leader")]
    assert {name.split(".")[0] for name in left} == {f"{16:020d}"}
    assert reopened(log).producers.states == log.producers.states, "producers outlive their records"


def test_epochs_follow_the_start_of_the_log() -> None:
    log = new_log(segment_bytes=2 * SIZE, retention_ms=1000)
    for number in range(8):
        append(log, batch(2, timestamps=NOW + 1000 * number), leader_epoch=number, now_ms=NOW)
    replicate(log)
    expire(log, NOW + 2001 + 1000)
    assert log.log_start_offset == 4
    assert log.end_of_epoch(LeaderEpoch(0)).end_offset == 4
    assert log.epochs.entries[0] == (2, 4)


def test_one_job_at_a_time() -> None:
    log = timed_log([NOW] * 4, retention_ms=1000)
    job = begin_retention(log, NOW + 5000)
    assert job is not None
    assert begin_retention(log, NOW + 5000) is None
    run_now(job)
    flush(log)
    assert begin_retention(log, NOW + 5000) is not None


def test_a_segment_that_compaction_emptied_does_not_keep_later_ones_from_going() -> None:
    log = new_log(segment_bytes=SIZE, cleanup_policy="compact,delete", retention_ms=1000)
    for number in range(6):
        append(log, batch([(b"a", b"%d" % number), (b"b", b"-")], timestamps=NOW))
    log.roll()
    append(log, batch([(b"a", b"zz"), (b"b", b"-")], timestamps=NOW))
    compact(log)
    assert log.segments[0].size == 0
    expire(log, NOW + 5000)
    assert log.log_start_offset == log.end_offset


def test_where_there_is_no_room_for_a_new_segment_old_ones_still_go(monkeypatch: pytest.MonkeyPatch) -> None:
    log = new_log(**{"segment.bytes": 300, "retention.ms": 1000})
    fill(log, 6)
    flush(log)
    replicate(log)

    def full(path: str, *, create: bool = False) -> File:
        raise DiskFullError(f"no room for {path}")

    monkeypatch.setattr(log.files, "open", full)
    run_now(begin_retention(log, NOW + 5000))

    assert log.log_start_offset == 3
    assert log.end_offset == 6
