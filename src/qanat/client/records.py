"""Records as a consumer receives them, and where a sent record was written.

A receipt is a tiny awaitable: all records of one batch share its one delivery, which is a flag until someone waits.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from qanat.model.ids import TopicPartition

__all__ = ["Delivery", "Headers", "Metadata", "Receipt", "Record", "TopicPartition"]

K = TypeVar("K")
V = TypeVar("V")
Headers = tuple[tuple[str, bytes | None], ...]


class Record(msgspec.Struct, Generic[K, V], gc=False):
    """One received record."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: K
    value: V
    headers: Headers = ()
    delivery_count: int = 0
    """How often a queue has delivered it; 0 outside of queues."""
    leader_epoch: int = -1

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class Metadata(msgspec.Struct, frozen=True, gc=False):
    """Where a record was written; the offset is -1 where the broker does not acknowledge (acks none)."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class Delivery(Protocol):
    """The delivery of a batch, which its receipts share."""

    is_done: bool

    def metadata(self, index: int, timestamp_ms: int) -> Metadata:
        """Where the record of that index was written; raises where it was not."""

    def wait(self) -> Generator[Any, None, None]:
        """Wait on the running event loop."""

    def wait_sync(self, timeout_s: float | None) -> None:
        """Wait in this thread; raises `TimeoutError`."""


class Receipt(msgspec.Struct, gc=False, eq=False):
    """The promise of an acknowledgement: `await receipt`, or `receipt.result()` in a thread."""

    delivery: Delivery
    index: int
    timestamp_ms: int

    @property
    def done(self) -> bool:
        return self.delivery.is_done

    def __await__(self) -> Generator[Any, None, Metadata]:
        if not self.delivery.is_done:
            yield from self.delivery.wait()
        return self.delivery.metadata(self.index, self.timestamp_ms)

    def result(self, timeout_s: float | None = None) -> Metadata:
        """Wait in this thread, at most so long; raises `TimeoutError` then."""
        if not self.delivery.is_done:
            self.delivery.wait_sync(timeout_s)
        return self.delivery.metadata(self.index, self.timestamp_ms)
