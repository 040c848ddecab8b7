"""The room of an outbox: a partition whose records wait for the parent takes only so many bytes (`up.bytes.max`).

An append to a full outbox waits for up to `up.wait.ms`, then fails with an error after which producers try again, as on
a full disk: nothing is dropped, and nothing is acknowledged that is not stored. Appends that wait go on in their order.

docs/decisions/0021-up-flow.md says why.
"""

from __future__ import annotations

import asyncio

from qanat.log.partition_log import PartitionLog
from qanat.model.errors import OutboxFullError


class OutboxRoom:
    """The room of one partition."""

    def __init__(self, log: PartitionLog, target: str, bytes_max: int, wait_ms: int) -> None:
        self._log = log
        self.target = target
        """The parent's topic."""
        self.bytes_max = bytes_max
        self.wait_ms = wait_ms
        self._queued = 0
        self._turn = asyncio.Lock()
        self._freed = asyncio.Event()
        self.refused = 0
        """Appends that found no room in time."""

    @property
    def stored_bytes(self) -> int:
        """Bytes of the segments that have records which the parent has not taken."""
        log = self._log
        start = log.log_start_offset
        if start >= log.end_offset:
            return 0
        following = [one.base_offset for one in log.segments[1:]]
        ends = [*following, log.end_offset]
        return sum(one.size for one, end in zip(log.segments, ends, strict=True) if end > start)

    @property
    def is_full(self) -> bool:
        return self.stored_bytes >= self.bytes_max

    @property
    def must_wait(self) -> bool:
        """Whether an append has to wait: for room, or for others that came before it."""
        return self._queued > 0 or self.is_full

    async def have_room(self) -> None:
        """Return when there is room, the longest waiting append first; raises `OutboxFullError` after `wait_ms`."""
        if not self.must_wait:
            return
        self._queued += 1
        try:
            async with asyncio.timeout(self.wait_ms / 1000), self._turn:
                while self.is_full:
                    self._freed.clear()
                    await self._freed.wait()
        except TimeoutError:
            self.refused += 1
            raise OutboxFullError(
                f"{self._log.topic_partition} is full: {self.stored_bytes} bytes wait for topic {self.target} of the "
                f"parent, up.bytes.max is {self.bytes_max}; there is room again once the parent has taken some"
            ) from None
        finally:
            self._queued -= 1

    def freed(self) -> None:
        """The parent has taken records, or the settings have changed."""
        self._freed.set()
