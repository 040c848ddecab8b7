"""A batch from its first record to its acknowledgement: what all of its receipts share.

Threads: records are added under the accumulator's lock; the I/O loop settles a batch once. `is_done` is set last, so
that a reader who sees it sees the rest.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from typing import Any

from qanat.client.errors import DeliveryError, FencedError, MessageTooLargeError
from qanat.client.records import Metadata
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition
from qanat.wire.batch_builder import BatchBuilder
from qanat.wire.batch_header import HEADER_SIZE

Waiter = tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]
_FENCED = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)


class BatchDelivery:
    """One batch and its outcome."""

    __slots__ = (
        "_hurry",
        "_lock",
        "_ready",
        "_waiters",
        "appended_ms",
        "at",
        "base_offset",
        "builder",
        "count",
        "fault",
        "is_awaited",
        "is_done",
        "is_flushed",
        "opened_at",
        "parts",
        "reserved",
    )

    def __init__(self, at: TopicPartition, limit_bytes: int, hurry: Callable[[], None]) -> None:
        self.at = at
        self.builder = BatchBuilder(limit_bytes, HEADER_SIZE)
        self.count = 0
        self.reserved = 0
        """Bytes of the buffer's memory that it holds."""
        self.opened_at: float | None = None
        """When the I/O loop first saw it."""
        self.is_awaited = False
        self.is_flushed = False
        self.is_done = False
        self.base_offset = -1
        self.appended_ms = -1
        self.fault: QanatError | None = None
        self.parts: list[tuple[int, BatchDelivery]] = []
        """Where it was too large and sent in parts: the index of each part's first record, and the part."""
        self._hurry = hurry
        self._lock = threading.Lock()
        self._waiters: list[Waiter] = []
        self._ready: threading.Event | None = None

    def metadata(self, index: int, timestamp_ms: int) -> Metadata:
        """Where a record was written; raises where it was not."""
        for first, part in reversed(self.parts):
            if index >= first:
                return part.metadata(index - first, timestamp_ms)
        if self.fault is not None:
            raise self.fault
        offset = self.base_offset + index if self.base_offset >= 0 else -1
        at = self.at
        return Metadata(at.topic, at.partition, offset, timestamp_ms if self.appended_ms < 0 else self.appended_ms)

    def wait(self) -> Generator[Any, None, None]:
        """Wait on the running loop; several may."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if self.is_done:
                return
            future: asyncio.Future[None] = loop.create_future()
            self._waiters.append((loop, future))
        self._ask()
        yield from future

    def wait_sync(self, timeout_s: float | None) -> None:
        """Wait in this thread."""
        with self._lock:
            if self.is_done:
                return
            if self._ready is None:
                self._ready = threading.Event()
        self._ask()
        if not self._ready.wait(timeout_s):
            raise TimeoutError(f"the records of {self.at} are not acknowledged after {timeout_s} s")

    def _ask(self) -> None:
        if not self.is_awaited:
            self.is_awaited = True
            self._hurry()

    def settle(self, base_offset: int, appended_ms: int, fault: QanatError | None) -> None:
        """The outcome; called once, on the I/O loop."""
        self.base_offset, self.appended_ms, self.fault = base_offset, appended_ms, fault
        with self._lock:
            self.is_done = True
            waiters, self._waiters = self._waiters, []
            if self._ready is not None:
                self._ready.set()
        here = asyncio.get_running_loop()
        by_loop: dict[asyncio.AbstractEventLoop, list[asyncio.Future[None]]] = {}
        for loop, future in waiters:
            by_loop.setdefault(loop, []).append(future)
        for loop, futures in by_loop.items():
            if loop is here:
                _resolve(futures)
            elif not loop.is_closed():
                loop.call_soon_threadsafe(_resolve, futures)


def _resolve(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)


def delivery_fault(fault: QanatError, at: TopicPartition, size: int, *, may_be_written: bool) -> QanatError:
    """The error of records that were not delivered: what to do about it."""
    if fault.code in _FENCED:
        return FencedError(f"{fault}: another producer has this transactional id; end this one")
    if fault.code is ErrorCode.MESSAGE_TOO_LARGE:
        return MessageTooLargeError(
            f"{at.topic} does not take a batch of {size} bytes: raise the topic's max.message.bytes, "
            f"or send smaller records ({fault})"
        )
    hint = " (it may be written all the same: the answer was lost)" if may_be_written else ""
    return DeliveryError(f"{fault}{hint}", fault.code, may_be_written=may_be_written)
