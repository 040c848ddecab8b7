"""Share fetch: records of some partitions for a member, and a wait where there are none.

Partitions are tried in turn until the member has as many records as it wants. A fetch that finds nothing parks until
records are written, released or redeliverable again, or until its time is up (`replicas.parked_fetch`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from qanat.broker.replicas.parked_fetch import Wake, wait_for_records
from qanat.broker.runtime.cooperative_yield import CooperativeYield
from qanat.broker.share.share_partition import NOTHING, Acquired, LedSharePartition
from qanat.groups.share.partition import Take
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError

_READ_BYTES_MAX = 2 * 1024 * 1024
"""So much of one partition is read at once, however much the member could take."""


@dataclass(frozen=True, slots=True)
class ShareLimits:
    """How much a member wants, and from how much on it is answered."""

    max_records: int
    batch_size: int
    max_bytes: int
    min_bytes: int
    is_exact: bool


@dataclass(slots=True)
class ShareFound:
    """The records of one partition for the member."""

    error: ErrorCode = ErrorCode.NONE
    acquired: Acquired = NOTHING


class ShareFetch:
    """One request: tried once, and again whenever there may be more."""

    def __init__(self, member: str, wanted: Sequence[LedSharePartition | ErrorCode], limits: ShareLimits) -> None:
        self._member = member
        self._wanted = wanted
        self._limits = limits
        self._led = [one for one in wanted if isinstance(one, LedSharePartition)]
        self.found = [ShareFound(one) if isinstance(one, ErrorCode) else ShareFound() for one in wanted]
        self._size = 0
        self._count = 0
        self._has_moved = False
        """Whether a partition gave nothing of what was read, and has other records next: these were aborted, or other
        members have them."""

    @property
    def is_over(self) -> bool:
        return self._count > 0 or any(found.error for found in self.found)

    async def run(self, max_wait_s: float) -> None:
        """Return when the member has records, or its time is up."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + max_wait_s
        while True:
            may_have_more = await self._try_watching(is_last=loop.time() >= deadline)
            if self.is_over or loop.time() >= deadline:
                return
            if may_have_more:
                await asyncio.sleep(0)
            else:
                await wait_for_records(self, deadline - loop.time())

    async def _try_watching(self, *, is_last: bool) -> bool:
        """Try; whether another try may find what this one did not: reading may wait, and nothing wakes it meanwhile."""
        self._has_moved = False
        came: list[None] = []

        def note() -> None:
            came.append(None)

        self.wait_for_more(note)
        try:
            await self._try(is_last=is_last)
        finally:
            self.stop_waiting(note)
        return self._has_moved or bool(came)

    async def _try(self, *, is_last: bool) -> None:
        if self._limits.max_records <= 0:
            return
        if not is_last and self._limits.min_bytes > 1 and not self._has_enough():
            return
        async for led, found in CooperativeYield().over(zip(self._wanted, self.found, strict=True)):
            if isinstance(led, ErrorCode) or not self._has_room():
                continue
            await self._try_one(led, found)

    def _has_room(self) -> bool:
        return self._count < self._limits.max_records and (self._size < self._limits.max_bytes or not self._size)

    async def _try_one(self, led: LedSharePartition, found: ShareFound) -> None:
        room = max(min(self._limits.max_bytes - self._size, _READ_BYTES_MAX), 0)
        try:
            reading = led.read_now(room)
            if reading is None:
                reading = await led.read(room)
        except QanatError as fault:
            found.error = fault.code
            return
        if not led.is_serving or led.partition.is_retired:
            found.error = ErrorCode.NOT_LEADER_OR_FOLLOWER
            return
        limits = self._limits
        take = Take(limits.max_records - self._count, limits.batch_size, limits.is_exact)
        found.acquired = led.acquire(self._member, reading, take)
        self._has_moved |= not found.acquired.ranges and led.has_moved(reading)
        self._size += found.acquired.size
        self._count += sum(last - first + 1 for first, last, _ in found.acquired.ranges)

    def _has_enough(self) -> bool:
        """Whether there are at least as many bytes as the member wants; what is not in memory counts as enough."""
        size = 0
        for led in self._led:
            try:
                reading = led.read_now(self._limits.min_bytes)
            except QanatError:
                return True
            if reading is None:
                return True
            size += reading.read.size
        return size >= self._limits.min_bytes

    # Waiting

    def wait_for_more(self, wake: Wake) -> None:
        """Have `wake` called when records are written, released or redeliverable."""
        for led in self._led:
            led.wait_for_more(wake)
            led.partition.wait_for_more(wake)

    def stop_waiting(self, wake: Wake) -> None:
        for led in self._led:
            led.stop_waiting(wake)
            led.partition.stop_waiting(wake)

    def is_due(self) -> bool:
        """Whatever comes may be acquired."""
        return True
