"""Group commit: what a flush takes, what it leaves to the next, and what is sealed on the way."""

from __future__ import annotations

from tests.log.batches import NOW, Writer, append, batch, disk_with, fill, flush, image, new_log, pairs_of, reopened

from qanat.log.background_jobs import run_now
from qanat.log.flush_state import begin_flush
from qanat.log.partition_log import PartitionLog
from qanat.log.producer_snapshots import decode_snapshot
from qanat.log.segments import file_names
from qanat.model.ids import LeaderEpoch

SIZE = len(batch(2))


def unflushed(log: PartitionLog) -> tuple[int, int, int, int | None]:
    return log.flushed_offset, log.unflushed_records, log.unflushed_bytes, log.unflushed_since_ms


def test_a_flushed_log_has_nothing_more_to_flush() -> None:
    log = new_log()
    assert begin_flush(log) is None
    fill(log, 3, 2)
    assert unflushed(log) == (0, 6, 3 * SIZE, NOW)
    flush(log)
    assert unflushed(log) == (6, 0, 0, None)
    assert begin_flush(log) is None


def test_a_flush_is_brief_where_one_sync_is_all_there_is_to_do() -> None:
    log = new_log(segment_bytes=3 * SIZE)
    found = []
    for epoch in (0, 0, 0, 0, 1):
        append(log, batch(2), leader_epoch=epoch)
        job = begin_flush(log)
        assert job is not None
        found.append(job.is_brief)
        run_now(job)
    assert found == [False, True, True, False, False], "a new name, nothing, nothing, another segment, another epoch"


def test_what_arrives_meanwhile_waits_for_the_next_one() -> None:
    log = new_log(segment_bytes=3 * SIZE)
    fill(log, 2, 2)
    job = begin_flush(log)
    assert job is not None
    assert begin_flush(log) is None, "one at a time"
    fill(log, 4, 2, leader_epoch=5)
    job.run()
    fill(log, 1, 2, leader_epoch=5)
    job.finish()
    assert log.flushed_offset == 4
    assert (log.unflushed_records, log.unflushed_bytes) == (10, 5 * SIZE)
    assert log.epochs.is_dirty
    assert not any(segment.is_sealed for segment in log.segments)
    run_now(begin_flush(log))
    assert log.flushed_offset == 14
    assert [segment.is_sealed for segment in log.segments] == [True, True, False]
    assert log.closed == []
    assert begin_flush(log) is None


def test_a_flush_is_due_for_new_names_and_epochs_alone() -> None:
    log = new_log()
    fill(log, 1)
    flush(log)
    log.roll()
    assert begin_flush(log) is not None
    other = new_log()
    other.become_leader(LeaderEpoch(3))
    flush(other)
    assert image(other.files)[file_names.LEADER_EPOCHS] == b"0\n1\n3 0\n"


def test_every_sealed_segment_has_its_companions_and_a_snapshot_of_its_end() -> None:
    log = new_log(segment_bytes=2 * SIZE)
    for number in range(6):
        append(log, batch(2, writer=Writer(7, 0, 2 * number)))
    flush(log)
    folder = image(log.files)
    for segment in log.segments[:-1]:
        for suffix in (file_names.LOG, file_names.OFFSET_INDEX, file_names.TIME_INDEX, file_names.SIDECAR):
            assert f"{segment.base_offset:020d}{suffix}" in folder
        producers = decode_snapshot(folder[f"{segment.next_offset:020d}{file_names.SNAPSHOT}"])
        assert producers is not None
        assert producers.states[7].batches[-1].last_offset == segment.next_offset - 1
    assert not [name for name in folder if name.endswith((file_names.SWAP, ".tmp"))]


def test_a_log_is_read_the_same_while_it_is_being_sealed() -> None:
    log = new_log(segment_bytes=2 * SIZE)
    fill(log, 7, 2)
    before = pairs_of(log)
    job = begin_flush(log)
    assert job is not None
    assert pairs_of(log) == before
    job.run()
    assert pairs_of(log) == before
    job.finish()
    assert pairs_of(log) == before


def test_a_closed_log_that_was_never_flushed_opens_with_all_that_reached_the_disk() -> None:
    log = new_log(segment_bytes=2 * SIZE)
    fill(log, 7, 2)
    opened = reopened(log, disk_with(image(log.files)))
    assert pairs_of(opened) == pairs_of(log)
    assert [segment.is_sealed for segment in opened.segments] == [True, True, True, False]


def test_flushing_twice_changes_no_file() -> None:
    log = new_log(segment_bytes=2 * SIZE)
    fill(log, 5, 2)
    flush(log)
    before = image(log.files)
    flush(log)
    assert image(log.files) == before
