"""What a truncation leaves of a log besides its batches: files, tables, producers, and what is still to be flushed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.log.batches import (
    NOW,
    Writer,
    append,
    batch,
    checkpoint_of,
    contents,
    disk_with,
    end_transaction,
    fill,
    flush,
    image,
    new_log,
    overwrite,
    pairs_of,
    reopened,
    replicate,
    truncate,
)
from tests.log.test_segment_ingest import begin, named, stage

from qanat.log.atomic_files import write_volatile
from qanat.log.background_jobs import run_now
from qanat.log.flush_state import begin_flush
from qanat.log.partition_log import PartitionLog
from qanat.log.producer_snapshots import encode_snapshot
from qanat.log.retention import begin_retention
from qanat.log.segments import file_names
from qanat.log.truncation import TruncateJob, TruncationPlanJob, begin_restart, begin_truncation, touched_segments
from qanat.model.errors import NotLeaderError
from qanat.model.ids import LeaderEpoch
from qanat.testing.simulation.disk import SimDisk

SIZE = len(batch(2))


def segmented(disk: SimDisk | None = None) -> PartitionLog:
    """Twelve offsets of one producer, four to a segment, all flushed."""
    log = new_log(disk, segment_bytes=2 * SIZE)
    for number in range(6):
        append(log, batch(2, writer=Writer(7, 0, 2 * number)))
    flush(log)
    return log


def expired() -> PartitionLog:
    """The same after retention has removed the first segment: it starts at 4."""
    log = segmented()
    replicate(log)
    log.advance_log_start(4)
    run_now(begin_retention(log, NOW))
    assert log.segments[0].base_offset == 4
    return log


def begun(log: PartitionLog, end_offset: int) -> TruncateJob:
    """A truncation as far as it goes without the disk, with a plan for the log as it is, flushed or not."""
    look = TruncationPlanJob(log, end_offset)
    run_now(look)
    job = begin_truncation(log, end_offset, look.plan)
    assert job is not None
    return job


def snapshots(log: PartitionLog) -> list[int]:
    return file_names.offsets_by_suffix(log.files.list(log.directory)).get(file_names.SNAPSHOT, [])


def layout(log: PartitionLog) -> list[tuple[int, int, bool]]:
    return [(segment.base_offset, segment.next_offset, segment.is_sealed) for segment in log.segments]


# Segments and files


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (10, [(0, 4, True), (4, 8, True), (8, 10, False)]),
        (8, [(0, 4, True), (4, 8, True), (8, 8, False)]),
        (6, [(0, 4, True), (4, 6, False)]),
        (4, [(0, 4, True), (4, 4, False)]),
        (0, [(0, 0, False)]),
    ],
)
def test_sealed_segments_before_the_new_end_stay_sealed(end: int, expected: list[tuple[int, int, bool]]) -> None:
    log = segmented()
    truncate(log, end)
    assert layout(log) == expected
    assert layout(reopened(log)) == expected


@pytest.mark.parametrize(
    "begin_job",
    [
        lambda log: begin_truncation(log, 0),
        lambda log: begin_truncation(log, 5),
        lambda log: begin_truncation(log, 8),
        lambda log: begin_restart(log, 3),
    ],
)
def test_readers_need_no_table_files_while_a_log_is_being_truncated(begin_job: Callable[..., TruncateJob]) -> None:
    log = reopened(segmented())
    job = begin_job(log)
    job.run()
    files = image(log.files)
    assert [record.offset for record in contents(log)] == list(range(12))
    assert image(log.files) == files, "no table was built again"


def test_the_tables_of_shortened_and_removed_segments_are_opened_before() -> None:
    log = segmented()
    touched = {end: [segment.base_offset for segment in touched_segments(log, end)] for end in (0, 3, 4, 5, 8, 9, 11)}
    assert touched == {0: [0, 4, 8], 3: [0, 4, 8], 4: [0, 4, 8], 5: [4, 8], 8: [4, 8], 9: [8], 11: [8]}


@pytest.mark.parametrize("end", [0, 4, 6, 10])
def test_the_files_of_replaced_and_removed_segments_are_closed_in_the_end(end: int) -> None:
    log = segmented(SimDisk(1))
    contents(log)
    before = list(log.segments)
    job = begun(log, end)
    job.run()
    assert all(segment.file.size() == 2 * len(batch(2, writer=Writer(7))) for segment in before), "they may be read"
    job.finish()
    gone = [segment for segment in before if segment not in log.segments]
    assert gone
    for segment in gone:
        with pytest.raises(AssertionError, match="used after close"):
            segment.file.size()


def test_a_copy_is_exact_from_the_first_byte_on() -> None:
    log = new_log()
    run_now(begin_restart(log, 2**60))
    fill(log, 3)
    expected = pairs_of(log)[:2]
    truncate(log, 2**60 + 2)
    assert pairs_of(log) == expected
    assert log.end_offset == 2**60 + 2


def test_a_copy_of_more_than_one_step_ends_where_the_log_ends() -> None:
    log = new_log(segment_bytes=100_000_000)
    for number in range(4):
        append(log, batch([(b"key", b"%d" % number * 700_000)]))
    expected = pairs_of(log)[:2]
    truncate(log, 2)
    assert log.active.file.size() == log.active.size
    assert pairs_of(reopened(log)) == expected


def test_a_truncation_ends_before_the_first_of_several_damaged_batches() -> None:
    log = new_log(segment_bytes=100 * SIZE)
    fill(log, 10, 2)
    log.roll()
    fill(log, 2, 2)
    flush(log)
    for number in (3, 5):
        overwrite(log, 0, number * SIZE + 12, b"\0\0\0\7")  # The leader epoch, which no checksum covers.
    truncate(log, 16)
    assert log.end_offset == 6
    assert reopened(log).damage == []


def test_a_segment_is_as_old_as_its_first_batch_after_it_was_shortened() -> None:
    log = new_log(segment_ms=1000)
    fill(log, 3)
    contents(log)
    truncate(log, 2)
    append(log, batch(), now_ms=NOW + 999)
    assert len(log.segments) == 1
    append(log, batch(), now_ms=NOW + 1000)
    assert len(log.segments) == 2


def test_a_segment_that_was_emptied_is_as_old_as_its_next_batch() -> None:
    log = new_log(segment_ms=1000)
    fill(log, 2)
    log.roll()
    fill(log, 2)
    flush(log)
    truncate(log, 2)
    append(log, batch(), now_ms=NOW + 999)
    append(log, batch(), now_ms=NOW + 1000)
    assert layout(log) == [(0, 2, True), (2, 4, False)]


# In place


def test_only_a_file_whose_batches_nobody_has_seen_is_truncated_in_place() -> None:
    log = new_log()
    fill(log, 4)
    flush(log)
    job = begun(log, 3)
    assert job.is_in_place
    run_now(job)
    contents(log)
    assert not begun(log, 2).is_in_place


def test_a_file_is_truncated_in_place_down_to_the_high_watermark() -> None:
    log = new_log()
    fill(log, 3)
    replicate(log)
    fill(log, 3)
    flush(log)
    assert begun(log, 3).is_in_place


def test_a_plan_for_a_segment_that_is_no_longer_the_last_is_not_used() -> None:
    log = new_log()
    fill(log, 3)
    look = TruncationPlanJob(log, 2)
    run_now(look)
    log.roll()
    fill(log, 2)
    flush(log)
    job = begin_truncation(log, 2, look.plan)
    assert job is not None
    assert not job.is_in_place
    run_now(job)
    assert [record.offset for record in contents(reopened(log))] == [0, 1]


def test_a_checkpoint_that_is_written_during_a_truncation_in_place_does_not_exceed_the_log() -> None:
    log = new_log(cleanup_policy="compact")
    for offset in (0, 2, 4, 6):
        log.append_replicated(batch(at=offset, leader_epoch=1), NOW)
    flush(log)
    job = begun(log, 4)
    assert job.is_in_place
    checkpoint = checkpoint_of(log)
    assert checkpoint.recovery_point == 3
    longer = reopened(log, disk_with(image(log.files)), checkpoint)
    assert (longer.end_offset, longer.damage) == (7, [])
    job.run()
    opened = reopened(log, checkpoint=checkpoint)
    assert (opened.end_offset, opened.damage) == (3, [])


def test_a_checkpoint_after_a_truncation_describes_the_shorter_log() -> None:
    disk = SimDisk(1)
    log = new_log(disk)
    fill(log, 4)
    flush(log)
    contents(log)
    truncate(log, 2)
    checkpoint = checkpoint_of(log)
    append(log, batch(20), leader_epoch=1)
    opened = reopened(log, disk.crash("keep_all"), checkpoint)
    assert (opened.end_offset, opened.damage) == (22, [])


def test_tables_are_the_same_as_if_the_log_had_never_been_longer() -> None:
    log, shorter = new_log(), new_log()
    for number in range(9):
        content = batch(2, writer=Writer(7, 0, 2 * number), timestamps=NOW + number)
        append(log, content, now_ms=NOW + number)
        if number < 7:
            append(shorter, content, now_ms=NOW + number)
    flush(log)
    job = begun(log, 14)
    assert job.is_in_place
    run_now(job)
    for one in (log, shorter):
        one.roll()
        flush(one)
    assert image(log.files) == image(shorter.files)


def test_an_aborted_transaction_before_the_new_end_is_listed_once() -> None:
    log = new_log()
    append(log, batch(2, writer=Writer(6)))
    log.roll()
    append(log, batch(2, writer=Writer(7), is_transactional=True))
    end_transaction(log, 7, is_commit=False)
    append(log, batch(2, writer=Writer(8)))
    flush(log)
    job = begun(log, 5)
    assert job.is_in_place
    run_now(job)
    assert [one.first_offset for one in log.aborted_transactions(0, 100)] == [2]
    assert sorted(log.producers.states) == [6, 7]


@pytest.mark.parametrize("is_in_place", [True, False])
def test_damage_that_is_met_on_the_way_is_reported(*, is_in_place: bool) -> None:
    log = new_log()
    for number in range(9):
        append(log, batch(2, writer=Writer(7, 0, 2 * number)))
    if not is_in_place:
        log.roll()
        append(log, batch(2, writer=Writer(7, 0, 18)))
        append(log, batch(2, writer=Writer(7, 0, 20)))
    flush(log)
    if not is_in_place:
        log.read(18, 10_000)
    overwrite(log, 0, 75, b"\xff")
    reported: list[object] = []
    log.state.on_damage = lambda log, damage: reported.extend(damage)
    job = begun(log, log.end_offset - 2)
    assert job.is_in_place is is_in_place
    run_now(job)
    assert [(one.first_offset, one.next_offset) for one in log.damage] == [(0, 2)]
    assert reported == log.damage


# Producers and epochs


def test_snapshots_beyond_the_new_end_are_removed() -> None:
    log = segmented()
    assert snapshots(log) == [4, 8]
    truncate(log, 6)
    assert snapshots(log) == [4]


def test_a_truncation_to_the_first_offset_keeps_producers_from_before_it() -> None:
    log = expired()
    truncate(log, 4)
    for one in (log, reopened(log)):
        assert (one.log_start_offset, one.end_offset) == (4, 4)
        assert one.producers.states[7].batches[-1].last_offset == 3


def test_a_truncation_before_the_first_offset_leaves_no_producer() -> None:
    log = expired()
    # As a power cut during retention leaves it.
    write_volatile(log.files, file_names.segment_file(log.directory, 2, file_names.SNAPSHOT), snapshot_of_seven())
    truncate(log, 3)
    for one in (log, reopened(log)):
        assert (one.log_start_offset, one.end_offset) == (3, 3)
        assert len(one.producers) == 0


def test_a_restart_leaves_no_snapshot_not_even_one_of_offset_0() -> None:
    log = segmented()
    write_volatile(log.files, file_names.segment_file(log.directory, 0, file_names.SNAPSHOT), snapshot_of_seven())
    run_now(begin_restart(log, 20))
    assert snapshots(log) == []
    assert len(reopened(log).producers) == 0


def snapshot_of_seven() -> bytes:
    return bytes(encode_snapshot(segmented().producers))


def test_epochs_that_wait_for_a_flush_still_wait_after_a_truncation_in_place() -> None:
    log = new_log()
    fill(log, 2)
    replicate(log)
    fill(log, 3)
    flush(log)
    log.advance_log_start(1)
    job = begun(log, 3)
    assert job.is_in_place
    run_now(job)
    flush(log)
    assert image(log.files)[file_names.LEADER_EPOCHS] == b"0\n1\n0 1\n"


# Flushing


@pytest.mark.parametrize("is_in_place", [True, False])
def test_a_truncated_log_has_nothing_to_flush(*, is_in_place: bool) -> None:
    log = new_log()
    fill(log, 2, leader_epoch=1)
    fill(log, 2, leader_epoch=2)
    flush(log)
    if not is_in_place:
        contents(log)
    job = begun(log, 2)
    assert job.is_in_place is is_in_place
    run_now(job)
    assert begin_flush(log) is None


def test_names_that_a_truncation_has_synced_need_no_flush() -> None:
    log = segmented()
    log.roll()
    flush(log)
    ingest = begin(log, stage(log.files, [batch(2)]), named(2))
    ingest.run()
    ingest.rename()
    log.become_follower(LeaderEpoch(1))
    with pytest.raises(NotLeaderError):
        ingest.finish()
    assert log.has_new_names, "an empty segment has taken the file's place again"
    run_now(begun(log, 10))
    assert begin_flush(log) is None


@pytest.mark.parametrize("is_in_place", [True, False])
def test_batches_that_were_not_flushed_count_no_more_after_a_truncation(*, is_in_place: bool) -> None:
    log = new_log()
    fill(log, 4)
    if not is_in_place:
        contents(log)
    assert log.state.unflushed_bytes > 0
    job = begun(log, 2)
    assert job.is_in_place is is_in_place
    run_now(job)
    assert (log.unflushed_bytes, log.unflushed_records, log.unflushed_since_ms) == (0, 0, None)
    assert log.state.unflushed_bytes == 0
    assert log.flushed_offset == 2


def test_a_truncation_waits_for_flushes_and_other_jobs() -> None:
    log = segmented()
    log.roll()
    for begin_job in (begin_truncation, begin_restart):
        with pytest.raises(AssertionError, match="flush first"):
            begin_job(log, 2)
    flush(log)
    run_now(begun(log, 11))
    begun(log, 6)
    for begin_job in (begin_truncation, begin_restart):
        with pytest.raises(AssertionError, match="one job at a time"):
            begin_job(log, 2)
