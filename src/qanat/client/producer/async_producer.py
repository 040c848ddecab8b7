"""`AsyncProducer`: records to topics from asyncio code."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from copy import copy
from types import TracebackType
from typing import Self

from qanat.client.errors import ClosedError
from qanat.client.io_loop import IoLoop
from qanat.client.producer.parts import ProducerParts
from qanat.client.producer.sending import GivenHeaders
from qanat.client.producer.transactions import Claim, GroupMetadata, HasGroupMetadata, TransactionCore
from qanat.client.records import Receipt
from qanat.client.settings import Servers
from qanat.model.ids import TopicPartition
from qanat.telemetry.producer_metrics import ProducerMetrics

CLOSE_S = 30.0
"""How long a producer waits at its end for what is on its way."""


class Transaction:
    """An open transaction; made by `AsyncProducer.transaction`."""

    def __init__(self, core: TransactionCore, io: IoLoop) -> None:
        self._core = core
        self._io = io

    async def commit_offsets(
        self, consumer: GroupMetadata | HasGroupMetadata | Claim, offsets: Mapping[TopicPartition, int]
    ) -> None:
        """Commit a group's offsets with the transaction: its input counts as read where its output is visible."""
        await self._io.run(self._core.commit_offsets(consumer, offsets))


class AsyncProducer:
    """Sends records; `async with AsyncProducer("localhost:9092") as producer`.

    `key` and `value` are serializers: an object with `encode(topic, value, headers)`, a name or a type. Without one,
    bytes and texts are sent as they are.
    """

    def __init__(
        self,
        bootstrap_servers: Servers,
        *,
        key: object = None,
        value: object = None,
        transactional_id: str | None = None,
        io: IoLoop | None = None,
        **settings: object,
    ) -> None:
        self._parts = ProducerParts(bootstrap_servers, key, value, transactional_id, io, settings)
        self._send = self._parts.sender.send
        self._io = self._parts.io
        self._core = self._parts.core

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close(CLOSE_S if kind is None else 0.0)

    async def send(
        self,
        topic: str,
        value: object,
        *,
        key: object = None,
        headers: GivenHeaders = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Receipt:
        """Send a record; waits only where the buffer is full or the topic is new. `await` the receipt for its place.

        A value of None is a tombstone. Raises `SerializationError`, `MessageTooLargeError`, and what keeps the broker
        from being reached.
        """
        receipt = self._send(topic, value, key, headers, partition, timestamp_ms)
        while receipt is None:
            await self._io.run(self._core.admit(topic))
            receipt = self._send(topic, value, key, headers, partition, timestamp_ms)
        return receipt

    async def encoded(
        self,
        topic: str,
        value: object,
        *,
        key: object = None,
        headers: GivenHeaders = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> tuple[bytes | None, bytes | None]:
        """Value and key as `send` would write them, for a record that is sent later; raises what `send` would."""
        found = self._parts.sender.encoded(topic, value, key, headers, timestamp_ms)
        if partition is not None or topic not in self._parts.sender.plans:
            await self._io.run(self._core.check_place(topic, partition))
        return found

    async def flush(self, timeout_s: float | None = None) -> None:
        """Wait until everything is acknowledged; raises the first failure since the last flush."""
        await self._io.run(self._core.flush(timeout_s))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        """Commit what is sent within, or abort it where the block raises."""
        transactions, io = self._parts.transactions, self._io
        await io.run(transactions.begin())
        try:
            yield Transaction(transactions, io)
        except BaseException:
            await io.run(transactions.abort())
            raise
        await io.run(transactions.commit())

    @property
    def metrics(self) -> ProducerMetrics:
        """What was sent so far, as it is now."""
        return copy(self._core.metrics)

    async def close(self, timeout_s: float = CLOSE_S) -> None:
        """Wait so long for acknowledgements, then end; raises the first failure since the last flush."""
        try:
            self._io.check()
        except ClosedError:
            return
        try:
            if timeout_s > 0 and not self._core.is_closed:
                await self._io.run(self._core.flush(timeout_s))
        finally:
            await self._io.run(self._core.close())
            self._parts.end()
