"""Cutting the end off: where asked, with everything that hangs on it, and the same after a restart."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.log.batches import (
    FOLDER,
    NOW,
    Writer,
    append,
    batch,
    batches_in,
    compact,
    contents,
    end_transaction,
    examples,
    fill,
    flush,
    new_log,
    overwrite,
    pairs_of,
    reopened,
    replicate,
    stored,
    truncate,
)

from qanat.log.background_jobs import run_now
from qanat.log.directories.catalogue import close_log, reopen_log
from qanat.log.partition_log import PartitionLog
from qanat.log.segments import file_names
from qanat.log.timestamp_lookup import find_timestamp
from qanat.log.truncation import TruncationPlanJob, begin_restart, begin_truncation
from qanat.model.errors import OutOfOrderSequenceError
from qanat.testing.simulation.disk import SimDisk

SIZE = len(batch(2))


def state(log: PartitionLog) -> tuple[object, ...]:
    """Everything about a log that truncation may change."""
    return (
        log.log_start_offset,
        log.end_offset,
        [content for _, content in stored(log)],
        log.epochs,
        log.producers.states,
        log.aborted_transactions(log.log_start_offset, log.end_offset),
    )


def transactional(number: int) -> Callable[[PartitionLog], object]:
    content = batch(2, writer=Writer(number % 2, 0, 2 * (number // 2)), is_transactional=True, timestamps=NOW + number)
    return lambda log: append(log, content, leader_epoch=number // 4, now_ms=NOW + number)


def ended(number: int) -> Callable[[PartitionLog], object]:
    return lambda log: end_transaction(log, number % 2, is_commit=number != 9, now_ms=NOW + number)


HISTORY = [
    *(act for number in range(15) for act in (transactional(number), *([ended(number)] if number % 5 == 4 else ()))),
    *[lambda log: fill(log, 1, 3, leader_epoch=8)] * 12,
]
"""Two producers in transactions, some of them ended, under four leaders; then a fifth with plain batches."""


def looked_up(log: PartitionLog) -> list[object]:
    """What look-up tables are good for: every offset and every time finds its batch."""
    times = range(NOW - 1, NOW + 20)
    return [
        [log.usable(log.segment_index(offset)).position_of(offset) for offset in range(log.end_offset)],
        [find_timestamp(log, timestamp, 1_000_000) for timestamp in times],
        [(one.max_timestamp, one.max_timestamp_offset, one.next_offset) for one in log.segments if one.size],
    ]


@examples
@given(end=st.integers(0, 70), segment_bytes=st.integers(200, 9000), read_at=st.none() | st.integers(0, 40))
def test_a_cut_log_equals_one_that_was_never_longer(end: int, segment_bytes: int, read_at: int | None) -> None:
    log = new_log(segment_bytes=segment_bytes)
    shorter = new_log(segment_bytes=segment_bytes)
    for number, act in enumerate(HISTORY):
        act(log)
        if log.end_offset <= end:
            act(shorter)
        if number == read_at:
            contents(log)
    truncate(log, end)
    flush(shorter)
    assert looked_up(log) == looked_up(shorter)
    assert state(log) == state(shorter)
    assert state(reopened(log)) == state(log)
    for one in (log, shorter):
        append(one, batch(2), leader_epoch=9)
    assert state(log) == state(shorter)
    flush(log)
    assert state(reopened(log)) == state(log)


@pytest.mark.parametrize(("end", "expected"), [(10, 10), (9, 8), (8, 8), (7, 6), (5, 4), (4, 4), (1, 0), (0, 0)])
def test_a_batch_that_holds_the_new_end_goes_as_a_whole(end: int, expected: int) -> None:
    log = new_log(segment_bytes=2 * SIZE)
    fill(log, 6, 2)
    truncate(log, end)
    assert log.end_offset == expected
    assert [record.offset for record in contents(log)] == list(range(expected))
    assert not log.active.is_sealed


def test_a_log_that_ends_there_already_is_left_alone() -> None:
    log = new_log()
    fill(log, 3)
    flush(log)
    assert begin_truncation(log, 3) is None
    assert begin_truncation(log, 9) is None
    assert log.running_job is None


def test_bounds_follow_the_end() -> None:
    log = new_log(segment_bytes=2 * SIZE)
    fill(log, 6, 2)
    replicate(log)
    log.advance_log_start(7)
    log.cleaned_offset = 8
    truncate(log, 4)
    assert (log.log_start_offset, log.high_watermark, log.cleaned_offset, log.flushed_offset) == (4, 4, 4, 4)
    assert (log.unflushed_bytes, log.unflushed_records, log.unflushed_since_ms) == (0, 0, None)


def test_producers_go_back_to_where_they_were() -> None:
    log = new_log(segment_bytes=3 * SIZE)
    for sequence in range(10):
        append(log, batch(2, writer=Writer(7, 0, 2 * sequence)))
    truncate(log, 10)
    with pytest.raises(OutOfOrderSequenceError, match="sequence 20 where 10 is next"):
        append(log, batch(2, writer=Writer(7, 0, 20)))
    assert append(log, batch(2, writer=Writer(7, 0, 10))).base_offset == 10


def test_a_transaction_whose_marker_was_cut_off_is_open_again() -> None:
    log = new_log()
    append(log, batch(2, writer=Writer(7), is_transactional=True))
    end_transaction(log, 7, is_commit=False)
    replicate(log)
    truncate(log, 2)
    assert log.last_stable_offset == 0
    assert log.aborted_transactions(0, 9) == []
    end_transaction(log, 7, is_commit=True)
    log.advance_high_watermark(3)
    assert log.last_stable_offset == 3


def test_snapshots_beyond_the_new_end_do_not_come_back() -> None:
    log = new_log(segment_bytes=2 * SIZE)
    for sequence in range(8):
        append(log, batch(2, writer=Writer(7, 0, 2 * sequence)))
    truncate(log, 6)
    for number in range(8):
        append(log, batch(2, writer=Writer(8, 0, 2 * number)))
    flush(log)
    opened = reopened(log)
    assert opened.producers.states == log.producers.states
    assert opened.producers.states[7].batches[-1].last_offset == 5


def test_a_cut_where_compaction_has_taken_the_last_records_does_not_end_beyond_it() -> None:
    log = new_log(cleanup_policy="compact", segment_bytes=4 * SIZE)
    for number in range(8):
        append(log, batch([(b"a", b"%d" % number), (b"b", b"-")]))
    log.roll()
    append(log, batch([(b"a", b"-"), (b"b", b"-")]))
    compact(log)
    assert [record.offset for record in contents(log)] == [16, 17]
    assert log.segments[0].next_offset > 5
    truncate(log, 5)
    assert log.end_offset <= 5
    assert reopened(log).end_offset == log.end_offset
    assert contents(log) == []


def test_a_cut_through_a_damaged_segment_ends_before_the_damage() -> None:
    log = new_log(segment_bytes=100 * SIZE)
    fill(log, 10, 2)
    log.roll()
    fill(log, 2, 2)
    flush(log)
    overwrite(log, 0, 3 * SIZE + 30, b"\xff\xff")
    truncate(log, 16)
    assert log.end_offset == 6
    append(log, batch(2))
    flush(log)
    assert pairs_of(reopened(log)) == pairs_of(log)
    assert reopened(log).damage == []


@pytest.mark.parametrize("offset", [0, 5, 12, 400])
def test_a_restart_leaves_nothing_of_the_old_log(offset: int) -> None:
    log = new_log(segment_bytes=2 * SIZE)
    for sequence in range(6):
        append(log, batch(2, writer=Writer(7, 0, 2 * sequence)), leader_epoch=sequence)
    replicate(log)
    run_now(begin_restart(log, offset))
    for one in (log, reopened(log)):
        assert (one.log_start_offset, one.high_watermark, one.end_offset) == (offset,) * 3
        assert one.epochs.entries == ()
        assert len(one.producers) == 0
        assert one.read(offset, 100).slices == ()
    log.append_replicated(batch(2, at=offset + 3, leader_epoch=9, writer=Writer(7, 0, 55)), NOW)
    flush(log)
    opened = reopened(log)
    assert [record.offset for record in contents(opened)] == [offset + 3, offset + 4]
    assert [name for name in log.files.list(FOLDER) if name.endswith(file_names.LOG)] == [f"{offset:020d}.log"]


def test_nothing_is_appended_while_a_log_is_being_cut() -> None:
    log = new_log()
    fill(log, 3)
    flush(log)
    assert len(contents(log)) == 3
    job = begin_truncation(log, 1)
    assert job is not None
    with pytest.raises(AssertionError, match="being truncated"):
        append(log, batch())
    job.run()
    assert [record.offset for record in contents(log)] == [0, 1, 2], "readers see the old log until it is finished"
    job.finish()
    assert append(log, batch()).base_offset == 1


def test_a_file_is_cut_in_place_where_nobody_has_looked() -> None:
    log = new_log()
    fill(log, 3)
    assert len(contents(log)) == 3
    fill(log, 3)
    file = log.active.file
    truncate(log, 3)
    assert log.active.file is file
    assert file.size() == log.active.size
    fill(log, 2)
    read = log.read(0, 10_000)
    truncate(log, 4)
    assert log.active.file is not file, "somebody is looking at what was cut"
    assert [header.base_offset for view in read.views() for header, _ in batches_in(view)] == [0, 1, 2, 3, 4]
    assert [record.offset for record in contents(log)] == [0, 1, 2, 3]


def test_what_consumers_were_told_of_is_not_cut_in_place() -> None:
    log = new_log()
    fill(log, 3)
    replicate(log)
    file = log.active.file
    truncate(log, 2)
    assert log.active.file is not file


def test_readers_see_the_shorter_log_while_its_file_is_being_cut() -> None:
    log = new_log()
    fill(log, 3)
    flush(log)
    look = TruncationPlanJob(log, 1)
    look.run()
    job = begin_truncation(log, 1, look.plan)
    assert job is not None
    assert [record.offset for record in contents(log)] == [0]
    job.run()
    job.finish()
    assert append(log, batch()).base_offset == 1
    assert [record.offset for record in contents(reopened(log))] == [0, 1]


def test_epochs_that_were_cut_off_in_place_do_not_come_back() -> None:
    log = new_log()
    fill(log, 2, leader_epoch=1)
    flush(log)
    fill(log, 2, leader_epoch=2)
    flush(log)
    truncate(log, 2)
    for one in (log, reopened(log)):
        assert [(entry.epoch, entry.start_offset) for entry in one.epochs.entries] == [(1, 0)]


def test_snapshots_that_were_cut_off_in_place_do_not_come_back_beside_what_was_written_since() -> None:
    disk = SimDisk(1)
    log = new_log(disk)
    for sequence in range(4):
        append(log, batch(writer=Writer(7, 0, sequence)))
    flush(log)
    reopened_log = reopen_log(disk, log.directory, close_log(log, "id"), log.settings)
    assert reopened_log is not None, "it was closed cleanly"
    log, file = reopened_log, reopened_log.active.file
    disk.sync_directory(log.directory)
    snapshot = file_names.segment_file(log.directory, 4, file_names.SNAPSHOT)
    assert disk.exists(snapshot)
    truncate(log, 2)
    assert log.active.file is file, "it was cut in place"
    fill(log, 4, leader_epoch=1)
    images = [disk.crash(variant=variant) for variant in range(30)]
    assert not any(image.exists(snapshot) for image in images)
