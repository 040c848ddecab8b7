"""The clients of a worker: consumers that commit only when they are told, and producers of bytes as well as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from qanat.client.app.durations import span_s
from qanat.client.app.ports import Assignments, Clients, DeclaredApp, LockLost, QueueSource, Sender, StreamConsumer
from qanat.client.io_loop import IoLoop
from qanat.client.records import Receipt
from qanat.client.serializers.lookup import serializer
from qanat.client.settings import ClientSettings, settings_for
from qanat.telemetry.producer_metrics import ProducerMetrics

if TYPE_CHECKING:
    from qanat.client.app.handlers import BatchHandler, Handler, QueueHandler

_TRANSACTION_TIMEOUT_MS = 30_000
"""A killed worker's transaction holds readers of committed records up for at most so long."""
_DECISION_S = 30.0
"""How long a worker may take to decide about a record of a queue whose handler took too long."""


class AppClients:
    """Clients of one app, all on one I/O loop."""

    def __init__(
        self,
        app: DeclaredApp,
        io: IoLoop,
        *,
        servers: str | Sequence[str] | Mapping[str, object] | None = None,
        settings: Mapping[str, Any] | None = None,
        produced: ProducerMetrics | None = None,
    ) -> None:
        """`servers` and `settings` stand in for the app's own; `produced` counts what all of its producers send."""
        self._servers = app.bootstrap_servers if servers is None else servers
        self._app_settings = app.settings if settings is None else settings
        self._io = io
        self._produced = produced or ProducerMetrics()

    def stream_consumer(self, handler: Handler, owner: Assignments) -> StreamConsumer:
        from qanat.client.consumer.async_consumer import AsyncConsumer
        from qanat.client.consumer.settings import ConsumerSettings

        # What an aborted transaction wrote must not be handled: its producer writes it again.
        defaults = {"isolation_level": "read_committed"} if getattr(handler, "exactly_once", False) else {}
        return AsyncConsumer(
            self._servers_of(ConsumerSettings),
            *handler.topics,
            group=handler.group,
            io=self._io,
            on_assigned=owner.on_assigned,
            on_revoked=owner.on_revoked,
            on_lost=owner.on_lost,
            **self._settings(
                ConsumerSettings,
                {"enable_auto_commit": False, "auto_offset_reset": "earliest", **defaults},
                handler.settings,
            ),
        )

    def batch_consumer(self, handler: BatchHandler, owner: Assignments) -> StreamConsumer:
        return self.stream_consumer(handler, owner)

    def queue_consumer(self, handler: QueueHandler, on_lock_lost: LockLost) -> QueueSource:
        from qanat.client.queue.consumers import AsyncQueueConsumer
        from qanat.client.queue.settings import QueueSettings

        return AsyncQueueConsumer(
            self._servers_of(QueueSettings),
            *handler.topics,
            group=handler.group,
            lock=handler.lock,
            on_lock_lost=on_lock_lost,
            io=self._io,
            **self._settings(QueueSettings, _queue_defaults(handler), handler.settings),
        )

    def producer(self, transactional_id: str | None = None) -> Sender:
        from qanat.client.producer.async_producer import AsyncProducer
        from qanat.client.producer.settings import ProducerSettings

        defaults = {} if transactional_id is None else {"transaction_timeout_ms": _TRANSACTION_TIMEOUT_MS}
        producer = AsyncProducer(
            self._servers_of(ProducerSettings),
            key=serializer(),
            value=serializer(),
            transactional_id=transactional_id,
            io=self._io,
            **self._settings(ProducerSettings, defaults, {}),
        )
        producer._core.metrics = self._produced
        return producer

    def _servers_of(self, kind: type[ClientSettings]) -> str | Sequence[str] | Mapping[str, object]:
        if isinstance(self._servers, Mapping):
            return settings_for(kind, _kinds(), self._servers)
        return self._servers

    def _settings(
        self, kind: type[ClientSettings], defaults: Mapping[str, Any], given: Mapping[str, Any]
    ) -> dict[str, Any]:
        """A handler's own settings are all of its client; the app's are of all its clients, each takes its own."""
        return {**defaults, **settings_for(kind, _kinds(), self._app_settings), **given}


def _queue_defaults(handler: QueueHandler) -> dict[str, Any]:
    # What waits here is locked, so that no other worker can have it.
    defaults: dict[str, Any] = {"prefetch_records": handler.concurrency}
    if handler.timeout_s is not None:
        # A record that took too long is still held while its error handler decides, and for the pause of its retry.
        defaults["timeout_s"] = handler.timeout_s + span_s(handler.retry.backoff)[1] + _DECISION_S
    return defaults


def _kinds() -> list[type[ClientSettings]]:
    from qanat.client.consumer.settings import ConsumerSettings
    from qanat.client.producer.settings import ProducerSettings
    from qanat.client.queue.settings import QueueSettings

    return [ConsumerSettings, ProducerSettings, QueueSettings]


class LazySender:
    """A producer that is made when something is sent: many handlers send nothing."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._producer: Sender | None = None

    async def send(
        self,
        topic: str,
        value: object,
        *,
        key: object = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Receipt:
        return await self._made().send(
            topic, value, key=key, headers=headers, partition=partition, timestamp_ms=timestamp_ms
        )

    async def encoded(
        self,
        topic: str,
        value: object,
        *,
        key: object = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> tuple[bytes | None, bytes | None]:
        return await self._made().encoded(
            topic, value, key=key, headers=headers, partition=partition, timestamp_ms=timestamp_ms
        )

    def _made(self) -> Sender:
        if self._producer is None:
            self._producer = self._clients.producer()
        return self._producer

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        raise AssertionError("transactions have a producer of their own")

    async def close(self) -> None:
        if self._producer is not None:
            await self._producer.close()
