"""Group commit: what a flush takes, what it leaves to the next, and what is sealed on the way."""

from __future__ import annotations

import pytest
from tests.log.batches import NOW, Writer, append, batch, disk_with, fill, flush, image, new_log, pairs_of, reopened
from tests.log.directories import WatchedFiles
from tests.log.test_segment_ingest import begin, ingest, named, stage

from qanat.adapters.memory_files import MemoryFiles
from qanat.log.atomic_files import read_whole
from qanat.log.background_jobs import run_now
from qanat.log.flush_state import FlushJob, begin_flush
from qanat.log.partition_log import PartitionLog
from qanat.log.producer_snapshots import decode_snapshot
from qanat.log.segments import file_names
from qanat.log.truncation import begin_truncation
from qanat.model.errors import DiskFullError, NotLeaderError
from qanat.model.ids import LeaderEpoch
from qanat.testing.simulation.disk import SimDisk
from qanat.testing.simulation.disk_faults import DiskFaults

SIZE = len(batch(2))


def unflushed(log: PartitionLog) -> tuple[int, int, int, int | None]:
    return log.flushed_offset, log.unflushed_records, log.unflushed_bytes, log.unflushed_since_ms


def begun(log: PartitionLog) -> FlushJob:
    job = begin_flush(log)
    assert job is not None, "there is something to flush"
    return job


def led_log(disk: SimDisk | WatchedFiles) -> PartitionLog:
    """An empty log whose leader epoch, 1, is on disk."""
    log = new_log(disk)
    log.become_leader(LeaderEpoch(1))
    flush(log)
    return log


def postpone_for_want_of_room(disk: SimDisk, job: FlushJob) -> None:
    disk.faults = DiskFaults(capacity_bytes=disk.content_bytes)
    with pytest.raises(DiskFullError):
        job.run()
    job.postpone()
    disk.faults = DiskFaults()


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


def test_a_brief_flush_syncs_one_file_and_no_folder() -> None:
    files = WatchedFiles(MemoryFiles())
    log = led_log(files)
    fill(log, 1, leader_epoch=1)
    files.acts.clear()
    flush(log)
    assert files.acts == [("sync", log.active.file.path)]


def test_a_file_that_was_taken_over_is_there_after_a_power_cut() -> None:
    disk = SimDisk(1)
    log = led_log(disk)
    ingest(log, stage(disk, [batch(2), batch(1)]), named(3), leader_epoch=1)
    job = begun(log)
    assert not job.is_brief, "it has a new name"
    run_now(job)
    assert pairs_of(reopened(log, disk.crash("drop_all"))) == pairs_of(log)
    assert log.end_offset == 3


def test_a_folder_is_synced_once_for_new_names_and_epochs_together() -> None:
    files = WatchedFiles(MemoryFiles())
    log = led_log(files)
    ingest(log, stage(files, [batch(2)]), named(2), leader_epoch=2)
    files.acts.clear()
    flush(log)
    assert files.count("sync_directory") == 1
    assert files.count("rename", file_names.LEADER_EPOCHS) == 1


def test_a_file_that_was_not_taken_over_after_all_does_not_come_back_after_a_flush() -> None:
    disk = SimDisk(1)
    log = led_log(disk)
    job = begin(log, stage(disk, [batch(2)]), named(2), leader_epoch=1)
    job.run()
    job.rename()
    log.become_follower(LeaderEpoch(2))
    with pytest.raises(NotLeaderError):
        job.finish()
    flush(log)
    images = [disk.crash(variant=variant) for variant in range(20)]
    assert [read_whole(one, log.active.path(file_names.LOG)) for one in images] == [b""] * 20
    assert begin_flush(log) is None


def test_a_segment_that_there_was_no_room_to_seal_is_sealed_by_the_next_flush() -> None:
    disk = SimDisk(1)
    log = new_log(disk)
    fill(log, 2)
    flush(log)
    log.roll()
    postpone_for_want_of_room(disk, begun(log))
    job = begun(log)
    assert not job.is_brief
    run_now(job)
    assert [segment.is_sealed for segment in log.segments] == [True, False]
    assert begin_flush(log) is None
    opened = reopened(log, disk.crash("drop_all"))
    assert [(segment.base_offset, segment.is_sealed) for segment in opened.segments] == [(0, True), (2, False)]


def test_epochs_that_there_was_no_room_for_are_written_by_the_next_flush() -> None:
    disk = SimDisk(1)
    log = new_log(disk)
    log.become_leader(LeaderEpoch(3))
    postpone_for_want_of_room(disk, begun(log))
    flush(log)
    assert image(disk.crash("drop_all"))[file_names.LEADER_EPOCHS] == b"0\n1\n3 0\n"


def test_an_epoch_that_begins_while_there_is_no_room_is_written_by_the_next_flush() -> None:
    disk = SimDisk(1)
    log = led_log(disk)
    fill(log, 2, leader_epoch=1)
    flush(log)
    log.roll()
    job = begun(log)
    log.become_leader(LeaderEpoch(3))
    postpone_for_want_of_room(disk, job)
    flush(log)
    assert image(disk.crash("drop_all"))[file_names.LEADER_EPOCHS] == b"0\n2\n1 0\n3 2\n"


def test_a_flush_that_was_put_off_writes_no_epochs_that_are_on_disk() -> None:
    disk = SimDisk(1)
    files = WatchedFiles(disk)
    log = led_log(files)
    fill(log, 2, leader_epoch=1)
    flush(log)
    log.roll()
    postpone_for_want_of_room(disk, begun(log))
    files.acts.clear()
    flush(log)
    assert files.count("rename", file_names.SIDECAR) == 1
    assert files.count("rename", file_names.LEADER_EPOCHS) == 0


def test_a_log_that_is_being_truncated_is_not_flushed() -> None:
    log = new_log()
    fill(log, 3)
    flush(log)
    log.become_leader(LeaderEpoch(1))
    job = begin_truncation(log, 1)
    assert job is not None
    assert begin_flush(log) is None, "it would write epochs that are about to go"
    run_now(job)
    assert [entry.epoch for entry in reopened(log).epochs.entries] == [0]


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
