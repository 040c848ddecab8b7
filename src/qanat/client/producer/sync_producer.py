"""`Producer`: records to topics from threads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from types import TracebackType
from typing import Self

from qanat.client.errors import ClosedError
from qanat.client.io_loop import IoLoop
from qanat.client.producer.async_producer import CLOSE_S
from qanat.client.producer.parts import ProducerParts
from qanat.client.producer.sending import GivenHeaders
from qanat.client.producer.transactions import Claim, GroupMetadata, HasGroupMetadata, TransactionCore
from qanat.client.records import Receipt
from qanat.client.settings import Servers
from qanat.model.ids import TopicPartition
from qanat.telemetry.producer_metrics import ProducerMetrics


class SyncTransaction:
    """An open transaction; made by `Producer.transaction`."""

    def __init__(self, core: TransactionCore, io: IoLoop) -> None:
        self._core = core
        self._io = io

    def commit_offsets(
        self, consumer: GroupMetadata | HasGroupMetadata | Claim, offsets: Mapping[TopicPartition, int]
    ) -> None:
        """Commit a group's offsets with the transaction: its input counts as read where its output is visible."""
        self._io.submit(self._core.commit_offsets(consumer, offsets)).result()


class Producer:
    """Sends records from any thread; `with Producer("localhost:9092") as producer`. As `AsyncProducer` otherwise."""

    def __init__(
        self,
        bootstrap_servers: Servers,
        *,
        key: object = None,
        value: object = None,
        transactional_id: str | None = None,
        **settings: object,
    ) -> None:
        self._parts = ProducerParts(bootstrap_servers, key, value, transactional_id, None, settings)
        self._send = self._parts.sender.send
        self._io = self._parts.io
        self._core = self._parts.core

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(CLOSE_S if kind is None else 0.0)

    def send(
        self,
        topic: str,
        value: object,
        *,
        key: object = None,
        headers: GivenHeaders = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Receipt:
        """Send a record; waits only where the buffer is full or the topic is new. `receipt.result()` has its place."""
        receipt = self._send(topic, value, key, headers, partition, timestamp_ms)
        while receipt is None:
            self._io.submit(self._core.admit(topic)).result()
            receipt = self._send(topic, value, key, headers, partition, timestamp_ms)
        return receipt

    def flush(self, timeout_s: float | None = None) -> None:
        """Wait until everything is acknowledged; raises the first failure since the last flush."""
        self._io.submit(self._core.flush(timeout_s)).result()

    @contextmanager
    def transaction(self) -> Iterator[SyncTransaction]:
        """Commit what is sent within, or abort it where the block raises."""
        transactions, io = self._parts.transactions, self._io
        io.submit(transactions.begin()).result()
        try:
            yield SyncTransaction(transactions, io)
        except BaseException:
            io.submit(transactions.abort()).result()
            raise
        io.submit(transactions.commit()).result()

    @property
    def metrics(self) -> ProducerMetrics:
        """What was sent so far, as it is now."""
        return copy(self._core.metrics)

    def close(self, timeout_s: float = CLOSE_S) -> None:
        """Wait so long for acknowledgements, then end; raises the first failure since the last flush."""
        try:
            self._io.check()
        except ClosedError:
            return
        try:
            if timeout_s > 0 and not self._core.is_closed:
                self.flush(timeout_s)
        finally:
            self._io.submit(self._core.close()).result()
            self._parts.end()
