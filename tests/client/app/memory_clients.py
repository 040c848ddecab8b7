"""Clients in memory, for tests of workers without a network: one list of records, offsets in a dictionary.

Tests against real brokers are in `test_app_with_brokers.py`; here it is decided when a poll answers, fails or revokes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, NamedTuple

from qanat.client.app.handlers import BatchHandler, Handler, QueueHandler
from qanat.client.app.ports import Assignments, LockLost, QueueSource, Raw
from qanat.client.queue.verdicts import Verdict
from qanat.client.records import Metadata, Record
from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition


class Sent(NamedTuple):
    topic: str
    value: object
    key: object
    headers: tuple[tuple[str, bytes | None], ...]


class Acknowledged:
    """A receipt that is there already."""

    def __await__(self) -> Any:
        yield from ()
        return Metadata("t", 0, 0, 0)


class MemoryConsumer:
    def __init__(self, clients: MemoryClients, owner: Assignments) -> None:
        self._clients = clients
        self.owner = owner
        self.paused: set[TopicPartition] = set()
        self.is_closed = False

    @property
    def group_metadata(self) -> object:
        return "the group"

    def claim(self, offsets: Mapping[TopicPartition, int]) -> object:
        return "a claim"

    async def start(self) -> None:
        await self.owner.on_assigned(sorted({one.topic_partition for one in self._clients.records}))

    async def poll(self, max_records: int = 500, timeout_s: float = 1.0) -> list[Any]:
        self._clients.polled.append(max_records)
        if self._clients.faults:
            raise self._clients.faults.pop(0)
        found = self._clients.records[:max_records]
        del self._clients.records[:max_records]
        if not found:
            self._clients.is_empty.set()
            await asyncio.sleep(timeout_s)
        return found

    async def commit(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        if self._clients.commit_faults:
            raise self._clients.commit_faults.pop(0)
        assert offsets is not None
        self._clients.committed.update(offsets)

    async def committed(self, *partitions: TopicPartition) -> dict[TopicPartition, int]:
        if self._clients.faults:
            raise self._clients.faults[0]
        return {at: self._clients.committed.get(at, -1) for at in partitions}

    async def close(self) -> None:
        self.is_closed = True

    def pause(self, *partitions: TopicPartition) -> None:
        self.paused |= set(partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        self.paused -= set(partitions)

    def arrow(self, rows: int, every_s: float) -> AsyncIterator[Any]:
        return self._arrow(rows, every_s)

    async def _arrow(self, rows: int, every_s: float) -> AsyncIterator[Any]:
        import pyarrow as pa  # type: ignore[import-untyped]

        while True:
            found = await self.poll(rows, every_s)
            if found:
                columns = [[getattr(one, name) for one in found] for name in ("topic", "partition", "offset", "value")]
                yield pa.record_batch(columns, names=["topic", "partition", "offset", "value"])


class MemoryQueue:
    """Hands out the records that a test puts there, and keeps what is said about them."""

    def __init__(self, on_lock_lost: LockLost) -> None:
        self._waiting: asyncio.Queue[Raw] = asyncio.Queue()
        self._on_lock_lost = on_lock_lost
        self.said: list[tuple[int, int, str]] = []
        """Offset, delivery count and verdict."""
        self.is_closed = False

    async def start(self) -> None: ...

    def deliver(self, offset: int, count: int) -> None:
        self._waiting.put_nowait(raw(offset, delivery_count=count))

    def lose_lock(self, offset: int) -> None:
        self._on_lock_lost(TopicPartition("orders", 0), offset, "its time was over")

    async def poll(self, max_records: int = 500, timeout_s: float = 1.0) -> list[Any]:
        try:
            return [await asyncio.wait_for(self._waiting.get(), timeout_s)]
        except TimeoutError:
            return []

    async def acknowledge(self, record: Raw, verdict: Verdict = Verdict.ACCEPT) -> None:
        self.said.append((record.offset, record.delivery_count or 0, verdict.name))

    async def close(self) -> None:
        self.is_closed = True


class MemoryTransaction:
    def __init__(self, clients: MemoryClients) -> None:
        self._clients = clients
        self.offsets: dict[TopicPartition, int] = {}

    async def commit_offsets(self, consumer: object, offsets: Mapping[TopicPartition, int]) -> None:
        self.offsets.update(offsets)


class MemoryProducer:
    def __init__(self, clients: MemoryClients) -> None:
        self._clients = clients
        self._open: list[Sent] | None = None

    async def send(self, topic: str, value: object, **more: Any) -> Any:
        if self._clients.send_faults:
            raise self._clients.send_faults.pop(0)
        sent = Sent(topic, value, more.get("key"), tuple(more.get("headers", ())))
        (self._clients.sent if self._open is None else self._open).append(sent)
        return Acknowledged()

    async def encoded(self, topic: str, value: object, *, key: object = None, **_: Any) -> tuple[Any, Any]:
        """Values stay what they are, for tests to compare."""
        return value, key

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        return self._transaction()

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[MemoryTransaction]:
        transaction = MemoryTransaction(self._clients)
        self._open = []
        try:
            yield transaction
            if self._clients.end_waits:
                self._write(transaction)
                await self._clients.end_waits.pop().wait()
                return
            if self._clients.end_faults:
                fault, is_written = self._clients.end_faults.pop(0)
                if is_written:
                    self._write(transaction)
                raise fault
            self._write(transaction)
        finally:
            self._open = None

    def _write(self, transaction: MemoryTransaction) -> None:
        assert self._open is not None
        self._clients.sent += self._open
        self._clients.committed.update(transaction.offsets)
        self._clients.transactions += 1

    async def close(self) -> None: ...


class MemoryClients:
    """All clients of one test."""

    def __init__(self, *records: Raw) -> None:
        self.records = list(records)
        self.committed: dict[TopicPartition, int] = {}
        self.sent: list[Sent] = []
        self.transactions = 0
        self.polled: list[int] = []
        self.faults: list[QanatError] = []
        self.commit_faults: list[QanatError] = []
        self.send_faults: list[QanatError] = []
        self.end_faults: list[tuple[QanatError, bool]] = []
        """Faults of ends of transactions, and whether the transaction was committed all the same."""
        self.end_waits: list[asyncio.Event] = []
        """For which the answer to a commit waits."""
        self.is_empty = asyncio.Event()
        self.consumers: list[MemoryConsumer] = []
        self.queues: list[MemoryQueue] = []

    def stream_consumer(self, handler: Handler, owner: Assignments) -> MemoryConsumer:
        self.consumers.append(MemoryConsumer(self, owner))
        return self.consumers[-1]

    def batch_consumer(self, handler: BatchHandler, owner: Assignments) -> MemoryConsumer:
        return self.stream_consumer(handler, owner)

    def queue_consumer(self, handler: QueueHandler, on_lock_lost: LockLost) -> QueueSource:
        self.queues.append(MemoryQueue(on_lock_lost))
        return self.queues[-1]

    def producer(self, transactional_id: str | None = None) -> MemoryProducer:
        return MemoryProducer(self)


def raw(
    offset: int, value: bytes | None = b"{}", key: bytes | None = None, partition: int = 0, delivery_count: int = 0
) -> Raw:
    return Record("orders", partition, offset, 1000 + offset, key, value, delivery_count=delivery_count)


def raws(n: int, key_of: Callable[[int], bytes | None] = lambda i: None) -> list[Raw]:
    return [raw(i, b'{"id":%d}' % i, key_of(i)) for i in range(n)]
