"""A share fetch waits only where another try would find nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from qanat.broker.replicas.parked_fetch import Wake
from qanat.broker.replicas.partition import EndMarker, Partition
from qanat.broker.share.share_fetch import ShareFetch, ShareLimits
from qanat.broker.share.share_partition import NO_READING, NOTHING, Acquired, LedSharePartition, Reading
from qanat.groups.share.partition import AcquiredRange, Take
from qanat.groups.share.state_records import ShareKey
from qanat.testing import BrokerHere
from qanat.wire.records import Record, encode_batch

LONG_S, SOON_S = 3600.0, 10.0
A_BATCH = ShareLimits(max_records=10, batch_size=10, max_bytes=1, min_bytes=1, is_exact=False)
PRODUCER = 5


class Log:
    """The log of a share partition, to which nothing is appended."""

    is_retired = False

    def wait_for_more(self, wake: Wake) -> None: ...

    def stop_waiting(self, wake: Wake) -> None: ...


class Played(LedSharePartition):
    """A share partition that has a record once it is released; `on_disk` is done while a cold read is under way."""

    def __init__(self, on_disk: Callable[[], None] | None = None) -> None:
        self.partition = Log()  # type: ignore[assignment]
        self.is_serving = True
        self.waiting: dict[Wake, None] = {}
        self._on_disk = on_disk
        self._given = NOTHING

    def read_now(self, max_bytes: int) -> Reading | None:
        return NO_READING if self._on_disk is None else None

    async def read(self, max_bytes: int) -> Reading:
        assert self._on_disk is not None, "it is cold"
        await asyncio.sleep(0)
        self._on_disk()
        return NO_READING

    def acquire(self, member: str, reading: Reading, take: Take) -> Acquired:
        return self._given

    def wait_for_more(self, wake: Wake) -> None:
        self.waiting[wake] = None

    def stop_waiting(self, wake: Wake) -> None:
        self.waiting.pop(wake, None)

    def release(self) -> None:  # type: ignore[override]
        self._given = Acquired([AcquiredRange(0, 0, 1)], [], 10)
        waiting, self.waiting = self.waiting, {}
        for wake in waiting:
            wake()


async def test_what_is_released_while_another_partition_is_read_from_disk_is_acquired_at_once() -> None:
    hot = Played()
    cold = Played(hot.release)
    fetch = ShareFetch("member", [hot, cold], A_BATCH)

    async with asyncio.timeout(SOON_S):
        await fetch.run(LONG_S)

    assert (fetch.found[0].acquired.ranges, hot.waiting, cold.waiting) == ([AcquiredRange(0, 0, 1)], {}, {})


async def test_records_behind_aborted_ones_are_acquired_at_once() -> None:
    async with BrokerHere() as broker:
        await broker.create_topic("orders")
        partition = broker.node.broker.lookup.led("orders", 0)
        assert isinstance(partition, Partition)
        led = await broker.node.broker.share_partitions.lead(ShareKey("group", partition.topic_id, 0))
        assert isinstance(led, LedSharePartition)
        led.policy = led.policy._replace(is_committed=True)
        partition.log.producers.requires_verification = False
        for number in range(3):
            partition.append_own(
                encode_batch(
                    [Record(0, 0, None, b"a")],
                    producer_id=PRODUCER,
                    producer_epoch=0,
                    base_sequence=number,
                    is_transactional=True,
                )
            )
        partition.append_marker(EndMarker(PRODUCER, 0, 0, is_commit=False))
        durable = partition.append_own(encode_batch([Record(0, 0, None, b"b")])).durable
        if durable is not None:
            await durable
        fetch = ShareFetch("member", [led], A_BATCH)

        async with asyncio.timeout(SOON_S):
            await fetch.run(LONG_S)

        assert [(one.first_offset, one.last_offset) for one in fetch.found[0].acquired.ranges] == [(4, 4)]
