"""Opening a log of several segments: which are removed, sealed or kept, and what is durable when the log is open."""

from __future__ import annotations

import msgspec
import pytest
from tests.log.batches import (
    FOLDER,
    PARTITION,
    append,
    batch,
    contents,
    disk_with,
    fill,
    flush,
    image,
    log_settings,
    new_log,
    reopened,
    replicate,
    stored,
)
from tests.log.directories import WatchedFiles

from qanat.log.partition_log import PartitionLog
from qanat.log.recorded_damage import begin_damage_record
from qanat.log.recovery.log_recovery import Checkpoint, open_log
from qanat.log.segments import file_names
from qanat.log.segments.sidecar import decode_sidecar, encode_sidecar
from qanat.model.errors import StorageError
from qanat.testing.simulation.disk import SimDisk
from qanat.testing.simulation.disk_faults import DiskFaults

SIZE = len(batch(2))


def log_at(base_offset: int) -> str:
    return f"{base_offset:020d}{file_names.LOG}"


def sidecar_at(base_offset: int) -> str:
    return f"{base_offset:020d}{file_names.SIDECAR}"


def segmented(count: int = 3, disk: SimDisk | None = None, **settings: object) -> PartitionLog:
    """Segments at 0, 8, 16 and so on, each of four batches of two records; the last one is open."""
    log = new_log(disk, segment_bytes=4 * SIZE, index_interval_bytes=0, **settings)
    fill(log, 4 * count, 2)
    replicate(log)
    assert [segment.base_offset for segment in log.segments] == list(range(0, 8 * count, 8))
    return log


def unsealed(log: PartitionLog, *bases: int) -> dict[str, bytes]:
    """The files of a log, with the sidecars of these segments lost."""
    return {name: data for name, data in image(log.files).items() if name not in {sidecar_at(base) for base in bases}}


def rotten(content: bytes, batch_number: int) -> bytes:
    position = batch_number * SIZE + 70
    return content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :]


def lost(log: PartitionLog) -> list[tuple[int, int]]:
    return [(one.first_offset, one.next_offset) for one in log.damage]


def started_disk() -> SimDisk:
    disk = SimDisk()
    disk.make_directory(FOLDER)
    disk.sync_directory("/data")
    return disk


def logs_on(disk: SimDisk) -> dict[str, bytes]:
    return {name: data for name, data in image(disk).items() if name.endswith(file_names.LOG)}


def change(disk: SimDisk, base_offset: int, content: bytes) -> None:
    """Other bytes in a segment's file, durably."""
    file = disk.open(f"{FOLDER}/{log_at(base_offset)}")
    file.write((content,), 0)
    file.sync()


# Damage and torn tails before other segments.


@pytest.mark.parametrize("batch_number", [0, 2, 3])
def test_unsound_bytes_before_a_sealed_segment_are_damage_whatever_the_recovery_point_says(batch_number: int) -> None:
    log = segmented(4)
    folder = unsealed(log, 8)
    folder[log_at(8)] = rotten(folder[log_at(8)], batch_number)
    for recovery_point in (0, 32):
        opened = reopened(log, disk_with(folder), Checkpoint(recovery_point=recovery_point))
        first = 8 + 2 * batch_number
        assert lost(opened) == [(first, first + 2)]
        assert opened.end_offset == 32


@pytest.mark.parametrize(
    ("recovery_point", "end_offset", "damage"),
    [(0, 12, []), (12, 12, []), *((point, 24, [(12, 14)]) for point in (13, 16, 17, 24))],
)
def test_unsound_bytes_before_an_unsealed_segment_are_damage_below_the_recovery_point_and_a_torn_tail_above(
    recovery_point: int, end_offset: int, damage: list[tuple[int, int]]
) -> None:
    log = segmented(3)
    folder = unsealed(log, 8)
    folder[log_at(8)] = rotten(folder[log_at(8)], 2)
    opened = reopened(log, disk_with(folder), Checkpoint(recovery_point=recovery_point))

    assert (opened.end_offset, lost(opened)) == (end_offset, damage)
    assert (log_at(16) in image(opened.files)) is bool(damage), "what follows a torn tail goes with it"


def test_damage_at_the_end_of_a_segment_reaches_to_the_next_one_though_the_recovery_point_is_inside_of_it() -> None:
    log = segmented(3)
    folder = unsealed(log, 8)
    folder[log_at(8)] = rotten(folder[log_at(8)], 3)

    assert lost(reopened(log, disk_with(folder), Checkpoint(recovery_point=15))) == [(14, 16)]


def test_a_lost_segment_before_a_sealed_one_is_damage_though_the_checkpoint_is_lost_too() -> None:
    log = segmented(4)
    folder = {name: data for name, data in image(log.files).items() if not name.startswith(f"{8:020d}")}

    opened = reopened(log, disk_with(folder), Checkpoint())

    assert lost(opened) == [(8, 16)]
    assert opened.end_offset == 32


def test_a_lost_segment_of_a_compacted_topic_is_damage_after_a_sealed_one() -> None:
    """A sealed segment says where the next one starts: the hole is not one of compaction."""
    log = segmented(3, cleanup_policy="compact")
    folder = {name: data for name, data in image(log.files).items() if not name.startswith(f"{8:020d}")}

    assert lost(reopened(log, disk_with(folder))) == [(8, 16)]


def test_a_hole_that_was_noted_stays_noted_when_the_checkpoint_is_lost_later() -> None:
    log = segmented(3)
    folder = {name: data for name, data in image(log.files).items() if not name.startswith(f"{8:020d}")}
    opened = reopened(log, disk_with(folder))
    again = reopened(opened, checkpoint=Checkpoint())

    for one in (opened, again):
        assert lost(one) == [(8, 16)]
        assert one.end_offset == 24
        assert begin_damage_record(one) is None, "nothing is left to write"


def test_a_sealed_segment_tells_its_rot_from_its_lost_end() -> None:
    log = segmented(2)
    folder = image(log.files)
    folder[log_at(0)] = rotten(folder[log_at(0)], 1)[: 3 * SIZE]

    opened = reopened(log, disk_with(folder))

    assert lost(opened) == [(2, 4), (6, 8)]


# What is on disk when the log is open.


def test_segments_that_a_dead_process_had_closed_are_sealed_when_the_log_is_opened() -> None:
    log = segmented(3)
    opened = reopened(log, disk_with(unsealed(log, 0, 8)))

    assert image(opened.files) == image(log.files)


def torn_on_disk(disk: SimDisk) -> PartitionLog:
    """Three segments, of which the last two have no sidecar, and the first of these is torn at offset 12."""
    log = segmented(3, disk)
    disk.remove(f"{FOLDER}/{sidecar_at(8)}")
    disk.sync_directory(FOLDER)
    change(disk, 8, rotten(image(disk)[log_at(8)], 2))
    return log


def test_what_followed_a_torn_tail_does_not_come_back_behind_new_batches() -> None:
    """Not at the next start, and not after a loss of power."""
    disk = started_disk()
    opened = reopened(torn_on_disk(disk), disk, Checkpoint())
    assert opened.end_offset == 12
    assert logs_on(disk.crash("drop_all")) == logs_on(disk), "cut off and removed durably"
    fill(opened, 1, 2)
    flush(opened)

    for files in (disk, disk.crash("drop_all")):
        again = reopened(opened, files, Checkpoint())
        assert again.end_offset == opened.end_offset == 14
        assert contents(again) == contents(opened)


def test_segments_behind_a_torn_tail_are_removed_one_after_another_and_before_it_is_truncated() -> None:
    """Whenever power fails, no segment is left behind a hole."""
    log = segmented(4)
    folder = unsealed(log, 0, 8, 16)
    folder[log_at(0)] = rotten(folder[log_at(0)], 2)
    files = WatchedFiles(disk_with(folder))
    reopened(log, files, Checkpoint())

    sync = ("sync_directory", FOLDER)
    changes = [act for act in files.acts if act == sync or (act[0] == "remove" and act[1].endswith(file_names.LOG))]
    gone = [("remove", f"{FOLDER}/{log_at(base)}") for base in (24, 16, 8)]
    at = changes.index(gone[0])
    assert changes[at : at + 6] == [gone[0], sync, gone[1], sync, gone[2], sync]


def test_what_is_appended_behind_damage_survives_a_loss_of_power() -> None:
    disk = started_disk()
    log = segmented(1, disk)
    change(disk, 0, rotten(image(disk)[log_at(0)], 1))
    opened = reopened(log)
    assert len(opened.segments) == 2, "nothing is written behind damage"
    append(opened, batch(2))
    flush(opened)

    after = reopened(opened, disk.crash("drop_all"))

    assert after.end_offset == opened.end_offset == 10
    assert after.read(8, 1000).next_offset == 10


def test_a_segment_that_is_begun_behind_damage_is_synced_before_its_name() -> None:
    log = segmented(2)
    folder = image(log.files)
    folder[log_at(8)] = rotten(folder[log_at(8)], 1)
    files = WatchedFiles(disk_with(folder))
    opened = reopened(log, files)

    assert opened.active.base_offset == 16
    assert files.acts[-2:] == [("sync", opened.active.file.path), ("sync_directory", FOLDER)]


def test_bytes_that_a_failed_sync_has_lost_are_not_served() -> None:
    disk = started_disk()
    log = segmented(1, disk, retention_ms=-1)
    append(log, batch(2))
    flush(log)
    append(log, batch(2))
    disk.faults = DiskFaults(fail_at_operations=(disk.operations + 1,))
    with pytest.raises(StorageError):
        log.active.file.sync()
    disk.faults = DiskFaults()

    opened = reopened(log)

    assert opened.end_offset == reopened(opened, disk.crash("drop_all")).end_offset == 10


@pytest.mark.parametrize("name", [sidecar_at(0), f"{0:020d}-{5:020d}{file_names.CLEANED}"])
def test_a_leftover_is_durably_gone_before_a_log_is_created(name: str) -> None:
    """A sidecar that came back after a loss of power would say that the new log is sealed."""
    files = WatchedFiles(disk_with({name: b"left over"}))
    open_log(files, FOLDER, PARTITION, log_settings(), Checkpoint())

    removed, created = (
        files.acts.index(("remove", f"{FOLDER}/{name}")),
        files.acts.index(("create", f"{FOLDER}/{log_at(0)}")),
    )
    assert ("sync_directory", FOLDER) in files.acts[removed:created]


def test_the_sidecar_of_an_encrypted_segment_that_is_gone_does_not_stop_the_opening() -> None:
    log = segmented(2)
    folder = image(log.files)
    sidecar = decode_sidecar(folder[sidecar_at(0)], sidecar_at(0))
    assert sidecar is not None
    folder[sidecar_at(999)] = encode_sidecar(msgspec.structs.replace(sidecar, key_id="k1"))

    opened = reopened(log, disk_with(folder))

    assert stored(opened) == stored(log)
    assert sidecar_at(999) not in image(opened.files)


def test_a_sound_log_is_opened_without_a_write_and_each_segment_once() -> None:
    log = new_log(segment_bytes=4 * SIZE)
    for epoch in range(10):
        append(log, batch(2), leader_epoch=epoch)
    flush(log)
    files = WatchedFiles(disk_with(image(log.files)))
    opened = reopened(log, files)

    assert opened.epochs == log.epochs
    assert files.count("open", file_names.LOG) == len(log.segments)
    assert {act for act, _ in files.acts} <= {"open", "read", "sync", "sync_directory", "close"}


# Checkpoints at the ends of the log.


@pytest.mark.parametrize(("cleaned", "taken"), [(23, 23), (24, 24), (25, 0)])
def test_a_cleaned_offset_is_taken_up_to_the_end_of_the_log(cleaned: int, taken: int) -> None:
    log = segmented(3, cleanup_policy="compact")
    assert reopened(log, checkpoint=Checkpoint(cleaned_offset=cleaned)).cleaned_offset == taken


@pytest.mark.parametrize(("start", "taken"), [(0, 0), (23, 23), (24, 24), (25, 0)])
def test_a_log_may_start_at_its_end_and_not_behind_it(start: int, taken: int) -> None:
    assert reopened(segmented(3), checkpoint=Checkpoint(log_start_offset=start)).log_start_offset == taken
