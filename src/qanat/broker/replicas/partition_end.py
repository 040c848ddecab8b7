# cython: language_level=3, annotation_typing=False
"""The produce fast path of a small batch into a partition that this broker leads, and what moves with the end of the
log.

`Partition` extends it. It runs compiled or interpreted, like `log.append_state`.

Rule: once this exists, the high watermark moves only in `_advance_to`, the only place that wakes waiting consumers.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from msgspec import Struct

from qanat.model.ids import NO_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Callable

    from qanat.log.append_state import Appended
    from qanat.log.partition_log import PartitionLog
    from qanat.log.runtime.log_runtime import LogRuntime
    from qanat.log.runtime.sync_future import SyncFuture
    from qanat.model.errors import NotLeaderError
    from qanat.replication.leader import Leader
    from qanat.wire.kafka.fast_produce import FastHeader


class Written(Struct, frozen=True):
    """A batch in the log, and the future that its acknowledgement by acks=all waits for."""

    base_offset: int
    append_time_ms: int
    durable: SyncFuture[None] | None


class PartitionEnd:
    """The part of a partition that an append uses."""

    __slots__ = (
        "_acknowledged",
        "_runtime",
        "_waiting",
        "is_retired",
        "leader",
        "leader_epoch",
        "log",
        "readable_bytes",
        "written_bytes",
    )

    def __init__(self, log: PartitionLog, runtime: LogRuntime, leader_epoch: int, leader: Leader | None) -> None:
        self.log = log
        self.leader_epoch = leader_epoch
        self.leader = leader
        """How far the followers are; None where this is the sole replica."""
        self.written_bytes = 0
        """Bytes appended since the start: waiting fetches count by it."""
        self.readable_bytes = 0
        """`written_bytes` when everything written could last be read: never more than what can be read now."""
        self.is_retired = False
        """Whether its topic was deleted, or another replica leads: this object serves nothing any more."""
        self._runtime = runtime
        self._waiting: dict[Callable[[], None], None] = {}
        self._acknowledged: deque[tuple[int, SyncFuture[None]]] = deque()
        """Waits for an offset to be committed, in order."""

    def append_fast(self, batch: memoryview, header: FastHeader) -> Written | None:
        """`append_now` for a writable batch whose header and checksum are sound."""
        if self.is_retired:
            raise self._not_leader()
        log = self.log
        appended = self._runtime.append_fast(log, batch, header, self.leader_epoch)
        if appended is None:
            return None
        if self.leader is not None or log.is_flushed or appended.is_duplicate:
            return self._written(appended, len(batch))
        # The same for a sole replica that leaves flushing to the kernel: written records can be read.
        self.written_bytes += len(batch)
        end_offset = appended.last_offset + 1
        self._advance_to(end_offset, end_offset)
        return Written(appended.base_offset, NO_TIMESTAMP, None)

    def _advance_to(self, end_offset: int, log_end: int) -> None:
        self.log.advance_high_watermark(end_offset)
        acknowledged = self._acknowledged
        while acknowledged and acknowledged[0][0] <= end_offset:
            acknowledged.popleft()[1].settle(None)
        if end_offset == log_end:
            self.readable_bytes = self.written_bytes
        if self._waiting:
            waiting, self._waiting = self._waiting, {}
            for wake in waiting:
                wake()

    def _written(self, appended: Appended, size: int) -> Written:
        """Count what was appended, and return what its acknowledgement waits for."""
        raise NotImplementedError

    def _not_leader(self) -> NotLeaderError:
        raise NotImplementedError
