"""Records become batches, in bounded memory. The callers' threads add; the I/O loop takes.

A batch is open until it leaves, so it grows while its partition has as many batches in flight as it may: that is all
the adapting that is needed. Memory is counted in steps, not by record.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from qanat.client.errors import MessageTooLargeError
from qanat.client.producer.deliveries import BatchDelivery
from qanat.client.records import Receipt
from qanat.model.ids import TopicPartition

if TYPE_CHECKING:
    from qanat.wire.record_reader import RawHeaders

_STEP_BYTES = 16 * 1024
_RECORD_OVERHEAD = 100
"""About the bytes of a batch of one record besides its key, value and headers."""
_LOW_PART = 0.75
"""Sends go on where so much of the memory is held."""


class Line:
    """The batches of one partition that have not left: full ones, and the open one."""

    __slots__ = ("at", "full", "is_sealing", "open", "opened")

    def __init__(self, at: TopicPartition) -> None:
        self.at = at
        self.full: deque[BatchDelivery] = deque()
        self.open: BatchDelivery | None = None
        self.opened = 0
        """How many batches it has had."""
        self.is_sealing = False
        """A batch of it is being compressed in a worker: the next one waits, to stay behind it."""


class Accumulator:
    """All lines of a producer."""

    def __init__(self, *, batch_bytes: int, buffer_bytes: int, record_bytes: int, wake: Callable[[], None]) -> None:
        """`wake` is called in the caller's thread where the I/O loop has something to do."""
        self._batch_bytes = batch_bytes
        self._buffer_bytes = buffer_bytes
        self._record_bytes = record_bytes
        self._wake = wake
        self._lock = threading.Lock()
        self._active: dict[TopicPartition, Line] = {}
        self._held_bytes = 0
        self._is_asleep = True
        self.is_full = False
        self.unfinished: set[BatchDelivery] = set()

    @property
    def held_bytes(self) -> int:
        return self._held_bytes

    def append(
        self, line: Line, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: RawHeaders
    ) -> Receipt:
        """Add a record; raises `MessageTooLargeError`."""
        with self._lock:
            delivery = line.open
            if delivery is not None:
                builder = delivery.builder
                index = builder.append(timestamp_ms, key, value, headers)
                if index >= 0:
                    if builder.size > delivery.reserved:
                        self._reserve(delivery)
                    return Receipt(delivery, index, timestamp_ms)
            delivery = self._open(line, key, value, headers)
            builder = delivery.builder
            index = builder.append(timestamp_ms, key, value, headers)
            self._reserve(delivery)
            must_wake, self._is_asleep = self._is_asleep, False
            must_wake |= bool(line.full)
        if must_wake:
            self._wake()
        return Receipt(delivery, index, timestamp_ms)

    def _open(self, line: Line, key: bytes | None, value: bytes | None, headers: RawHeaders) -> BatchDelivery:
        self.check_size(line.at.topic, key, value, headers)
        if line.open is not None:
            line.full.append(line.open)
        delivery = line.open = BatchDelivery(line.at, self._batch_bytes, self.hurry)
        line.opened += 1
        self._active[line.at] = line
        self.unfinished.add(delivery)
        return delivery

    def check_size(self, topic: str, key: bytes | None, value: bytes | None, headers: RawHeaders) -> None:
        """Raise `MessageTooLargeError` where a record is too large for any batch."""
        size = _RECORD_OVERHEAD + len(key or b"") + len(value or b"")
        size += sum(len(name) + len(content or b"") for name, content in headers)
        if size > self._record_bytes:
            raise MessageTooLargeError(
                f"a record of {size} bytes for {topic} is larger than max_request_size={self._record_bytes}: "
                "raise it together with the topic's max.message.bytes, or send less"
            )

    def _reserve(self, delivery: BatchDelivery) -> None:
        """Count the batch's next step of memory."""
        size = delivery.builder.size
        wanted = max(_STEP_BYTES, delivery.reserved)
        while wanted < size:
            wanted *= 2
        self._held_bytes += wanted - delivery.reserved
        delivery.reserved = wanted
        if self._held_bytes >= self._buffer_bytes:
            self.is_full = True

    def hurry(self) -> None:
        """A receipt is awaited: its batch need not linger."""
        with self._lock:
            self._is_asleep = False
        self._wake()

    # Called on the I/O loop

    def flush(self) -> list[BatchDelivery]:
        """Everything that is not acknowledged; none of it lingers any more."""
        with self._lock:
            for delivery in self.unfinished:
                delivery.is_flushed = True
            self._is_asleep = False
            return list(self.unfinished)

    def take(
        self, now: float, linger_s: float, has_room: Callable[[TopicPartition], bool], is_idle: Callable[..., bool]
    ) -> tuple[list[tuple[Line, BatchDelivery]], float | None]:
        """Batches that leave now, at most one of a partition, and when to look again if nothing happens before."""
        leaving: list[tuple[Line, BatchDelivery]] = []
        look_at: float | None = None
        with self._lock:
            for at, line in list(self._active.items()):
                newest = line.open
                if newest is not None and newest.opened_at is None:
                    newest.opened_at = now
                if line.is_sealing or not has_room(at):
                    continue
                delivery = line.full.popleft() if line.full else None
                if delivery is None and line.open is not None:
                    delivery = line.open
                    ready_at = (delivery.opened_at or now) + linger_s
                    can_leave = delivery.is_flushed or ready_at <= now or (delivery.is_awaited and is_idle(at))
                    if not can_leave:
                        look_at = ready_at if look_at is None else min(look_at, ready_at)
                        continue
                    line.open = None
                if delivery is not None:
                    leaving.append((line, delivery))
                if line.open is None and not line.full:
                    del self._active[at]
            if not self._active:
                self._is_asleep = True
        return leaving, look_at

    def finished(self, delivery: BatchDelivery) -> bool:
        """A batch has its outcome; returns whether waiting sends can go on."""
        with self._lock:
            self._held_bytes -= delivery.reserved
            self.unfinished.discard(delivery)
            if self.is_full and self._held_bytes <= self._buffer_bytes * _LOW_PART:
                self.is_full = False
                return True
        return False

    def discard(self) -> list[BatchDelivery]:
        """Take away everything that has not left."""
        with self._lock:
            found: list[BatchDelivery] = []
            for line in self._active.values():
                found += line.full
                line.full.clear()
                if line.open is not None:
                    found.append(line.open)
                    line.open = None
            self._active.clear()
            return found
