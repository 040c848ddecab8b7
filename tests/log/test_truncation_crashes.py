"""Power cuts during a truncation: the log is as long as before, as short as asked, or in between; never broken."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import count

import pytest
from tests.log.batches import (
    NOW,
    Writer,
    append,
    batch,
    contents,
    end_transaction,
    fill,
    flush,
    new_log,
    pairs_of,
    reopened,
    truncate,
)

from qanat.log.background_jobs import run_now
from qanat.log.partition_log import PartitionLog
from qanat.log.recovery.log_recovery import Checkpoint
from qanat.log.truncation import begin_restart
from qanat.testing.simulation.disk import SimDisk
from qanat.testing.simulation.disk_faults import Act, DiskFaults, PowerLoss

SEGMENT_BYTES = 2 * len(batch(2, writer=Writer(7), is_transactional=True))
VARIANTS = 20
"""Images of each power cut."""


def written(disk: SimDisk, end: int = 16) -> PartitionLog:
    """Segments of two batches up to `end`, with transactions under several leaders, looked at by a reader."""
    log = new_log(disk, segment_bytes=SEGMENT_BYTES)
    for number in range(7):
        if log.end_offset < end:
            append(log, batch(2, writer=Writer(7, 0, 2 * number), is_transactional=True), leader_epoch=number // 2)
        if log.end_offset < end and number % 3 == 2:
            end_transaction(log, 7, is_commit=number % 2 == 0)
    flush(log)
    contents(log)
    assert log.end_offset == end
    return log


def cuts(act: Callable[[PartitionLog], object]) -> Iterator[tuple[PartitionLog, SimDisk]]:
    """The log before `act`, and the disk after a power cut at its end and before each of its syncs of the folder."""
    before = written(SimDisk(1))
    at, has_ended = 0, False
    while not has_ended:
        # Names may reach the disk in any order.
        disk = SimDisk(1, DiskFaults(keeps_name_order=False), is_traced=False)
        log = written(disk)
        at += 1
        disk.before_change = power_cut(disk, at)
        try:
            act(log)
            has_ended = True
        except PowerLoss:
            pass
        yield before, disk.crash("drop_all")
        for variant in range(VARIANTS):
            yield before, disk.crash(variant=variant)


def power_cut(disk: SimDisk, at: int) -> Callable[[Act], None]:
    """Cuts the power before sync number `at` of a folder."""
    syncs = count(1)

    def look(act: Act) -> None:
        if act == "sync_directory" and next(syncs) == at:
            disk.power_off()
            raise PowerLoss

    return look


def state(log: PartitionLog) -> tuple[object, ...]:
    aborted = log.aborted_transactions(0, log.end_offset)
    return log.damage, pairs_of(log), log.epochs, log.producers.states, aborted


@cache
def state_at(end: int) -> tuple[object, ...]:
    """The state of a log that was never longer."""
    return state(written(SimDisk(1), end))


@pytest.mark.parametrize(
    "end", [9, 0, *(pytest.param(end, marks=[pytest.mark.long, pytest.mark.data]) for end in (7, 2))]
)
def test_a_power_cut_in_a_truncation_leaves_a_sound_log_that_is_not_too_short(end: int) -> None:
    found = set()
    for before, disk in cuts(lambda log: truncate(log, end)):
        opened = reopened(before, disk, Checkpoint())
        found.add(opened.end_offset)
        assert state(opened) == state_at(opened.end_offset)
    assert (min(found), max(found)) == (end, 16)


def test_a_truncated_log_stays_so_after_a_power_cut() -> None:
    for end in (11, 5, 0):
        disk = SimDisk(1)
        log = written(disk)
        truncate(log, end)
        for image in (disk.crash("drop_all"), disk.crash(variant=end)):
            assert state(reopened(log, image)) == state(log)


def test_a_power_cut_in_a_restart_leaves_the_old_log_or_the_new_one_and_no_mixture() -> None:
    found = set()
    for before, disk in cuts(lambda log: run_now(begin_restart(log, 400))):
        opened = reopened(before, disk, Checkpoint())
        found.add(opened.end_offset)
        if opened.end_offset < 400:
            assert opened.end_offset >= before.segments[0].next_offset, "the old log goes last"
            assert state(opened) == state_at(opened.end_offset)
        else:
            assert (opened.log_start_offset, opened.end_offset) == (400, 400)
            assert opened.epochs.entries == ()
            assert len(opened.producers) == 0
    assert max(found) == 400
    assert len(found) > 2


def test_an_epoch_that_was_truncated_does_not_come_back_in_the_gap_before_the_next_batch() -> None:
    """The leader has compacted what followed; recovery trusts the file of epochs there."""
    disk = SimDisk(1)
    log = new_log(disk, cleanup_policy="compact")
    fill(log, 2, leader_epoch=1)
    fill(log, 2, leader_epoch=2)
    flush(log)
    contents(log)
    truncate(log, 2)
    log.append_replicated(batch(at=5, leader_epoch=3), NOW)
    opened = reopened(log, disk.crash("keep_all"), Checkpoint())
    assert [record.offset for record in contents(opened)] == [0, 1, 5]
    assert opened.epochs.entries == ((1, 0), (3, 5))
