"""C64, C65, C66: a disk that errs, lies or fills up: nothing is acknowledged that is not there, no garbage shows up."""

from __future__ import annotations

from dataclasses import replace

import pytest
from verify.logs.crash_sweep import VARIANTS, crashed
from verify.logs.log_checks import check_bounds, check_recovered, stored_batches
from verify.logs.log_rig import AT, DIRECTORY, Content, LogRig
from verify.logs.log_workload import LogWorkload

from qanat.log.background_jobs import run_now
from qanat.log.flush_state import begin_flush
from qanat.log.recovery.log_recovery import open_log
from qanat.log.segments.batch_scan import find_damage
from qanat.log.settings import LogSettings
from qanat.model.errors import DiskFullError, QanatError, StorageError
from qanat.testing.simulation.disk import SimDisk
from qanat.testing.simulation.disk_faults import Act, DiskFaults

SMALL = Content(((b"key", b"x" * 50, 0),))
LARGE = Content(((b"key", b"y" * 700, 0),))


def rig_on(disk: SimDisk, segment_bytes: int = 1024) -> LogRig:
    rig = LogRig(disk, LogSettings(segment_bytes=segment_bytes))
    rig.append(SMALL)
    rig.flush()
    return rig


def assert_images_are_sound(rig: LogRig) -> None:
    """Whatever a power loss leaves now is what was promised, and nothing else."""
    assert isinstance(rig.files, SimDisk)
    for variant in VARIANTS:
        image = crashed(rig.files, variant)
        check_recovered(open_log(image, DIRECTORY, AT, rig.settings, rig.checkpoint), rig.history)


@pytest.mark.parametrize(("act", "ending"), [("sync", ".log"), ("sync_directory", ""), ("rename", ".tmp")])
def test_c65_a_failed_flush_acknowledges_nothing_and_no_later_flush_makes_up_for_it(act: Act, ending: str) -> None:
    disk = SimDisk(1)
    rig = rig_on(disk)
    rig.append(LARGE)
    rig.append(LARGE)
    flushed = rig.log.flushed_offset
    disk.fail_next(act, ending)

    with pytest.raises(StorageError):
        run_now(begin_flush(rig.log))

    assert rig.log.flushed_offset == flushed
    assert begin_flush(rig.log) is None, "the next fsync would lie"
    assert rig.log.flushed_offset == flushed
    assert_images_are_sound(rig)


@pytest.mark.parametrize("room_bytes", range(0, 760, 20))
def test_c66_a_disk_that_fills_up_in_mid_batch_leaves_the_log_as_it_was(room_bytes: int) -> None:
    disk = SimDisk(1)
    rig = rig_on(disk, segment_bytes=8192)
    used = sum(disk.open(f"{DIRECTORY}/{name}").size() for name in disk.list(DIRECTORY))
    disk.faults = DiskFaults(capacity_bytes=used + room_bytes)
    before = [content for _, content in stored_batches(rig.log)], rig.log.end_offset, len(rig.log.producers)

    with pytest.raises(DiskFullError):
        rig.append_as(1, LARGE, is_transactional=False)

    assert ([content for _, content in stored_batches(rig.log)], rig.log.end_offset, len(rig.log.producers)) == before
    assert_images_are_sound(rig)
    disk.faults = DiskFaults()
    rig.append(SMALL)
    assert_images_are_sound(rig)
    rig.flush()
    assert_images_are_sound(rig)
    check_recovered(rig.log, rig.history)


def test_a_disk_that_is_full_for_a_new_segment_refuses_and_goes_on_later() -> None:
    disk = SimDisk(1)
    rig = rig_on(disk, segment_bytes=1024)
    rig.append(LARGE)
    disk.fail_next("create", ".log")

    with pytest.raises(StorageError):
        rig.append(LARGE)

    assert len(rig.log.segments) == 1
    rig.append(LARGE)
    rig.flush()
    check_recovered(rig.log, rig.history)


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=[pytest.mark.long, pytest.mark.data]) for seed in range(1, 6))]
)
def test_an_error_at_any_operation_never_moves_what_is_acknowledged(seed: int) -> None:
    """T9: every call site once; after the error the log may be dead, but what it acknowledged is there."""
    counting = SimDisk(seed)
    LogWorkload(seed, counting).run()
    start = SimDisk(seed)
    LogRig(start, LogSettings())
    for operation in range(start.operations + 1, counting.operations + 1, 2):
        disk = SimDisk(seed)
        workload = LogWorkload(seed, disk)
        disk.faults = replace(disk.faults, fail_at_operations=(operation,), tears_write=bool(operation % 4))
        try:
            workload.run()
        except QanatError:
            pass
        else:
            # An empty folder of staged files that stays harms nobody.
            is_harmless = disk.trace[operation] == "I/O error at rmdir /staging"
            assert is_harmless, (
                f"the error at operation {operation} of seed {seed} went unnoticed: {disk.trace[operation]}"
            )
        rig = workload.rig
        image = disk.crash("drop_all")
        log = open_log(image, DIRECTORY, AT, rig.settings, rig.checkpoint)
        check_bounds(log)
        assert log.end_offset >= rig.history.durable_end, f"seed {seed}, operation {operation}"


def test_rot_is_found_where_it_is() -> None:
    disk = SimDisk(3)
    rig = rig_on(disk)
    for _ in range(4):
        rig.append(LARGE)
    rig.flush()
    first = rig.log.segments[0]
    disk.rot(first.file.path, 8 * (first.size - 10))

    found = list(find_damage(first.file, 0, first.size, first.base_offset, first.next_offset))

    assert len(found) == 1
    assert found[0].start <= first.size - 10 < found[0].end
    for segment in rig.log.segments[1:]:
        assert not list(find_damage(segment.file, 0, segment.size, segment.base_offset, segment.next_offset))
