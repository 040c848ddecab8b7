"""A parked fetch reads again when enough has come, or when its time is up, and leaves nothing behind."""

from __future__ import annotations

import asyncio

import pytest

from qanat.broker.replicas.parked_fetch import ParkedFetch, Wake, wait_for_records


class Records:
    """A fetch of one partition that wants so many records."""

    def __init__(self, wanted: int = 1) -> None:
        self.waiting: dict[Wake, None] = {}
        self.written = 0
        self.wanted = wanted

    def wait_for_more(self, wake: Wake) -> None:
        self.waiting[wake] = None

    def stop_waiting(self, wake: Wake) -> None:
        self.waiting.pop(wake, None)

    def is_due(self) -> bool:
        return self.written >= self.wanted

    def append(self) -> None:
        self.written += 1
        waiting, self.waiting = self.waiting, {}
        for wake in waiting:
            wake()


class Reading:
    """What a parked fetch read; it is answered by the read that finds enough, or is late."""

    def __init__(self, records: Records, needed: int, max_wait_s: float = 3600) -> None:
        self.reads: list[tuple[int, bool]] = []
        self._records = records
        self._needed = needed
        self.parked = ParkedFetch(records, max_wait_s, self._read)

    def _read(self, is_late: bool) -> None:
        self.reads.append((self._records.written, is_late))
        if is_late or self._records.written >= self._needed:
            self.parked.stop()


async def turns() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_appends_of_one_turn_are_read_together() -> None:
    records = Records()
    reading = Reading(records, needed=1)
    records.append()
    records.append()
    assert reading.reads == []
    await turns()

    assert (reading.reads, reading.parked.is_over, records.waiting) == ([(2, False)], True, {})


async def test_too_little_does_not_cause_a_read() -> None:
    records = Records(wanted=3)
    reading = Reading(records, needed=3)
    for _ in range(2):
        records.append()
        await turns()
    assert (reading.reads, len(records.waiting)) == ([], 1)
    records.append()
    await turns()

    assert reading.reads == [(3, False)]


async def test_a_read_that_finds_too_little_waits_on() -> None:
    records = Records()
    reading = Reading(records, needed=2)
    for _ in range(2):
        records.append()
        await turns()

    assert reading.reads == [(1, False), (2, False)]


async def test_it_reads_a_last_time_when_its_time_is_up() -> None:
    records = Records()
    reading = Reading(records, needed=1, max_wait_s=0.01)
    await asyncio.sleep(0.1)

    assert (reading.reads, records.waiting) == ([(0, True)], {})


async def test_a_stopped_one_reads_nothing() -> None:
    records = Records()
    reading = Reading(records, needed=1, max_wait_s=0.01)
    records.append()
    reading.parked.stop()
    await asyncio.sleep(0.1)

    assert (reading.reads, records.waiting) == ([], {})


async def test_a_task_waits_for_records_and_leaves_nothing_behind() -> None:
    records = Records()
    waiting = asyncio.ensure_future(wait_for_records(records, 3600))
    await turns()
    records.append()
    await asyncio.wait_for(waiting, 30)
    cancelled = asyncio.ensure_future(wait_for_records(records, 3600))
    await turns()
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled

    assert records.waiting == {}
