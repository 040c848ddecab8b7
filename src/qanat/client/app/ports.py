"""What workers need of consumers and producers: the part of `AsyncConsumer` and its siblings that they use."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Protocol

from qanat.client.records import Receipt, Record
from qanat.model.ids import TopicPartition

if TYPE_CHECKING:
    from qanat.client.app.handlers import BatchHandler, ErrorHandler, Handler, QueueHandler
    from qanat.client.app.health import Health

Raw = Record[bytes | None, bytes | None]
"""A record as it was received."""

LockLost = Callable[[TopicPartition, int, str], None]
"""Called with partition, offset and reason, when the lock of a queue's record is lost."""


class StreamConsumer(Protocol):
    """A member of a consumer group."""

    async def start(self) -> object: ...
    async def poll(self, max_records: int = ..., timeout_s: float = ...) -> list[Any]: ...
    async def commit(self, offsets: Mapping[TopicPartition, int] | None = None) -> None: ...
    async def committed(self, *partitions: TopicPartition) -> dict[TopicPartition, int]: ...
    async def close(self) -> None: ...
    def pause(self, *partitions: TopicPartition) -> None: ...
    def resume(self, *partitions: TopicPartition) -> None: ...
    def arrow(self, rows: int, every_s: float) -> AsyncIterator[Any]: ...
    def claim(self, offsets: Mapping[TopicPartition, int]) -> Any: ...
    @property
    def group_metadata(self) -> Any: ...


class QueueSource(Protocol):
    """A member of a share group."""

    async def start(self) -> object: ...
    async def poll(self, max_records: int = ..., timeout_s: float = ...) -> list[Any]: ...
    async def acknowledge(self, record: Any, verdict: Any = ...) -> None: ...
    async def close(self) -> None: ...


class Sender(Protocol):
    """A producer."""

    async def send(
        self,
        topic: str,
        value: object,
        *,
        key: object = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Receipt: ...
    async def encoded(
        self,
        topic: str,
        value: object,
        *,
        key: object = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> tuple[bytes | None, bytes | None]: ...
    async def close(self) -> None: ...
    def transaction(self) -> AbstractAsyncContextManager[Any]: ...


class Assignments(Protocol):
    """Learns which partitions come and go."""

    async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None: ...
    async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None: ...
    async def on_lost(self, partitions: Sequence[TopicPartition]) -> None: ...


class Clients(Protocol):
    """Makes the clients of a worker."""

    def stream_consumer(self, handler: Handler, owner: Assignments) -> StreamConsumer: ...
    def batch_consumer(self, handler: BatchHandler, owner: Assignments) -> StreamConsumer: ...
    def queue_consumer(self, handler: QueueHandler, on_lock_lost: LockLost) -> QueueSource: ...
    def producer(self, transactional_id: str | None = None) -> Sender: ...


class DeclaredApp(Protocol):
    """What workers need of an app."""

    bootstrap_servers: str | Sequence[str] | Mapping[str, object]
    settings: dict[str, Any]
    handlers: list[Handler]
    grace_s: float
    health_port: int | None
    lifespan: Callable[[], AbstractAsyncContextManager[object]] | None
    start_hooks: list[Callable[[], object]]
    stop_hooks: list[Callable[[], object]]
    error_handler: ErrorHandler | None

    def health(self) -> Health: ...
    def metrics(self) -> str: ...
