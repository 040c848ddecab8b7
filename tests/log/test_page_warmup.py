"""Segments checked on the way into memory: all that is asked for, no more than that, and exactly what is damaged."""

from __future__ import annotations

import pytest
from tests.log.batches import append, batch, flush, new_log, overwrite
from tests.log.directories import WatchedFiles

from qanat.adapters.memory_files import MemoryFiles
from qanat.log.atomic_files import write_volatile
from qanat.log.background_jobs import run_now
from qanat.log.page_warmup import CheckJob, PageWarmupJob, is_resident
from qanat.log.partition_log import PartitionLog
from qanat.log.segments import file_names
from qanat.log.segments.segment import Segment
from qanat.testing.simulation.disk import SimDisk
from qanat.testing.simulation.disk_faults import DiskFaults

BATCHES = 60


def sealed(files: MemoryFiles | SimDisk | WatchedFiles, interval_bytes: int = 300) -> PartitionLog:
    """A log whose first segment is sealed, with sixty batches of two records."""
    log = new_log(files, index_interval_bytes=interval_bytes)
    for number in range(BATCHES):
        append(log, batch([(b"k", b"%d" % number * 20), (b"k", None)]))
    log.roll()
    flush(log)
    return log


def position(segment: Segment, number: int) -> int:
    assert segment.tables.check()
    return segment.position_of(2 * number)


def test_warm_is_what_both_tables_and_log_have_in_memory() -> None:
    disk = SimDisk(1)
    segment = sealed(disk).segments[0]

    assert not is_resident(segment, 0, 100), "nobody has looked at the tables yet"
    run_now(PageWarmupJob(segment, 0, 100))
    assert is_resident(segment, 0, 100)
    disk.faults = DiskFaults(cold_chance=1.0)
    assert not is_resident(segment, 0, 100)


def test_an_offset_beyond_the_end_or_before_the_start_is_no_trouble() -> None:
    log = sealed(SimDisk(1))

    run_now(PageWarmupJob(log.segments[0], 5000, 100))
    run_now(PageWarmupJob(log.segments[1], 0, 100))
    assert is_resident(log.segments[1], 5000, 100)
    assert is_resident(log.segments[0], -5, 100)
    assert not log.damage


@pytest.mark.parametrize("hurt", [0, 1, 17, 30, BATCHES - 1])
@pytest.mark.parametrize("interval_bytes", [0, 300, 100_000])
def test_damage_is_named_exactly_wherever_warming_starts(hurt: int, interval_bytes: int) -> None:
    for asked in sorted({0, hurt - 1, hurt}):
        log = sealed(MemoryFiles(), interval_bytes)
        segment = log.segments[0]
        overwrite(log, 0, position(segment, hurt) + 70, b"\xff\xff")
        job = PageWarmupJob(segment, max(2 * asked, 0), 1 << 20)
        run_now(job)

        assert [(one.first_offset, one.next_offset) for one in job.damage] == [(2 * hurt, 2 * hurt + 2)]
        assert list(segment.damage) == list(job.damage)


def test_all_that_will_be_handed_out_is_checked_however_far_the_walk() -> None:
    """With one index entry per segment, the walk to the offset alone is longer than what is read."""
    log = sealed(MemoryFiles(), interval_bytes=100_000)
    segment = log.segments[0]
    overwrite(log, 0, position(segment, 55) + 70, b"\xff")
    job = PageWarmupJob(segment, 2 * 54, 200)
    run_now(job)

    assert len(job.damage) == 1


def test_what_was_not_asked_for_is_not_checked() -> None:
    log = sealed(MemoryFiles(), interval_bytes=0)
    segment = log.segments[0]
    overwrite(log, 0, position(segment, 55) + 70, b"\xff")
    job = PageWarmupJob(segment, 0, 200)
    run_now(job)

    assert not job.damage


def test_damage_is_noted_once_by_whoever_finds_it() -> None:
    log = sealed(MemoryFiles())
    segment = log.segments[0]
    overwrite(log, 0, position(segment, 20) + 70, b"\xff")
    overwrite(log, 0, position(segment, 40) + 70, b"\xff")
    found: list[PageWarmupJob | CheckJob] = [
        PageWarmupJob(segment, 40, 200),
        CheckJob(segment, 1 << 20),
        PageWarmupJob(segment, 80, 200),
    ]
    for job in found:
        run_now(job)

    assert [len(job.damage) for job in found] == [2, 0, 0]
    assert [one.first_offset for one in segment.damage] == [40, 80]


def test_known_damage_is_passed_over_without_searching_again() -> None:
    files = WatchedFiles(MemoryFiles())
    log = sealed(files)
    segment = log.segments[0]
    overwrite(log, 0, position(segment, 20) + 70, b"\xff")
    run_now(PageWarmupJob(segment, 38, 200))
    files.acts.clear()
    run_now(PageWarmupJob(segment, 38, 400))

    assert files.count("read", file_names.LOG) == 2  # Up to the damage, and from its end on.


def test_tables_that_rotted_do_not_make_damage_of_sound_batches() -> None:
    files = MemoryFiles()
    log = sealed(files)
    segment = log.segments[0]
    write_volatile(files, segment.path(file_names.OFFSET_INDEX), b"\xff" * 80)
    job = PageWarmupJob(segment, 60, 200)
    run_now(job)

    assert job.is_lost
    assert not job.damage
    run_now(log.begin_rebuild(segment))
    assert segment.tables.is_checked
    assert log.read(60, 300).size > 0


def test_scrubbing_goes_step_by_step_to_the_end() -> None:
    segment = sealed(MemoryFiles()).segments[0]
    job = CheckJob(segment, 1000)
    steps = 0
    while not job.is_done:
        before = job.position
        run_now(job)
        steps += 1
        assert 0 < job.position - before < 1300

    assert steps == pytest.approx(segment.size / 1000, abs=2)
    assert job.position == segment.size


def test_scrubbing_finds_what_steps_begin_with() -> None:
    log = sealed(MemoryFiles())
    segment = log.segments[0]
    for number in (0, 25, BATCHES - 1):
        overwrite(log, 0, position(segment, number) + 70, b"\xff")
    job = CheckJob(segment, position(segment, 25))
    while not job.is_done:
        run_now(job)

    assert [(one.first_offset, one.next_offset) for one in segment.damage] == [(0, 2), (50, 52), (118, 120)]
