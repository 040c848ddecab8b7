"""Segment leases: segments that a worker reads are not closed.

A cold read uses a segment's file off the event loop. A job that replaces segments
closes the old ones when it is finished: it recalls the log's leases first, and new
ones wait until it is done, so that neither can starve the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from qanat.log.partition_log import PartitionLog


class SegmentLeases:
    """Counts the workers that read each log's segments. Belongs to one event loop."""

    def __init__(self) -> None:
        self._counts: dict[PartitionLog, int] = {}
        self._recalls: dict[PartitionLog, asyncio.Event] = {}
        self._returns: dict[PartitionLog, asyncio.Event] = {}

    @asynccontextmanager
    async def leased(self, log: PartitionLog) -> AsyncIterator[None]:
        """Inside, the segments that the log has now stay open."""
        while (recall := self._recalls.get(log)) is not None:
            await recall.wait()
        self._counts[log] = self._counts.get(log, 0) + 1
        try:
            yield
        finally:
            self._counts[log] -= 1
            if not self._counts[log]:
                del self._counts[log]
                if (returned := self._returns.get(log)) is not None:
                    returned.set()

    @asynccontextmanager
    async def recalled(self, log: PartitionLog) -> AsyncIterator[None]:
        """Inside, no worker reads the log's segments. One at a time per log."""
        assert log not in self._recalls, "one job at a time"
        over = self._recalls[log] = asyncio.Event()
        returned = self._returns[log] = asyncio.Event()
        try:
            if log in self._counts:
                await returned.wait()
            yield
        finally:
            del self._recalls[log], self._returns[log]
            over.set()
