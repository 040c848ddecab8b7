"""`AsyncPushConsumer` and `PushConsumer`: records as they are written, in a loop.

async with AsyncPushConsumer("localhost:9092", "prices", group_id="till") as consumer:
    async for record in consumer:
        print(record.value)
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

from qanat.client.io_loop import IoLoop
from qanat.client.push.settings import PushConsumerSettings
from qanat.client.push.subscriber import Subscriber, Voided
from qanat.client.records import Record
from qanat.client.settings import Servers, read_settings
from qanat.connection.push.receiving import ResumePoint
from qanat.connection.push.refreshing import Refresh, RefreshEvent
from qanat.model.ids import TopicPartition
from qanat.wire.push.control import Reset, Verdict

Result = TypeVar("Result")
Delivered = Record[bytes | None, bytes | None]
Reached = Mapping[TopicPartition, ResumePoint] | None
OnReset = Callable[[Refresh], Reached | Awaitable[Reached]]
OnReady = Callable[[Refresh], Awaitable[None] | None]
OnVoid = Callable[[Reset], Awaitable[None] | None]


class _Callbacks:
    """What an application does at RESET and READY."""

    def __init__(self, on_reset: OnReset | None, on_ready: OnReady | None, on_void: OnVoid | None) -> None:
        self._on_reset = on_reset
        self._on_ready = on_ready
        self._on_void = on_void

    def call(self, event: RefreshEvent | Voided) -> Reached | Awaitable[Reached] | Awaitable[None]:
        """Call the one that an event is for; where there is none it is done."""
        if isinstance(event, Voided):
            return None if self._on_void is None else self._on_void(event.reset)
        if event.is_ready:
            return None if self._on_ready is None else self._on_ready(event.refresh)
        return None if self._on_reset is None else self._on_reset(event.refresh)


async def _within(work: Coroutine[Any, Any, Result], seconds: float | None) -> Result:
    """Wait so long at most. It is decided where the records are, which could be handed out in that very moment."""
    async with asyncio.timeout(seconds):
        return await work


class AsyncPushConsumer:
    """An asynchronous iterator over pushed records, on the caller's event loop."""

    def __init__(
        self,
        servers: Servers,
        topics: str | Iterable[str],
        *,
        positions: dict[TopicPartition, ResumePoint] | None = None,
        on_reset: OnReset | None = None,
        on_ready: OnReady | None = None,
        on_void: OnVoid | None = None,
        **settings: Any,
    ) -> None:
        """`positions` are where to continue in mode `all`: those of an earlier consumer, stored with its data. A group
        knows where to continue; its consumer names by them which topics the records are of that it has stored.

        The callbacks are called between the records, in order, and acknowledged when they return. `on_reset` opens a
        new generation and returns how far it is; `on_ready` switches to it; `on_void` drops what is not in the log, and
        everything of the partition where `reset.why` is `recreated`: another topic has the name.
        """
        self._callbacks = _Callbacks(on_reset, on_ready, on_void)
        read = read_settings(PushConsumerSettings, servers, settings)
        self._subscriber = Subscriber(read, [topics] if isinstance(topics, str) else topics, positions)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Delivered:
        return await self.next()

    async def next(self) -> Delivered:
        """The next record; the one before it counts as processed. Raises what a callback raises, which is not
        acknowledged then."""
        return (await self.next_batch(1))[0]

    async def next_batch(self, max_records: int = 10_000) -> list[Delivered]:
        """The records that have arrived, one at least, in their order; those of the batch before count as processed.
        All of a partition belong to one generation."""
        while True:
            found = await self._subscriber.next_batch(max_records)
            if isinstance(found, list):
                return found
            try:
                reached = self._callbacks.call(found)
                if inspect.isawaitable(reached):
                    reached = await reached
            except BaseException:
                self._subscriber.fail(found)
                raise
            self._subscriber.answer(found, reached)

    def refresh_of(self, record: Delivered) -> Refresh | None:
        """The refresh whose new generation the record that was handed out last belongs to; None where it belongs to
        what is served."""
        return self._subscriber.refresh_of(record.topic_partition)

    def done(self) -> None:
        """The record, or every record of the batch, is processed; asking for the next one says the same."""
        self._subscriber.done()

    def release(self) -> None:
        """Let the queue give the record to another worker."""
        self._subscriber.done(Verdict.RELEASE)

    def reject(self) -> None:
        """The record can never be processed: the queue gives it to nobody any more."""
        self._subscriber.done(Verdict.REJECT)

    def renew(self) -> None:
        """Keep the lock of the record for longer."""
        self._subscriber.renew()

    @property
    def is_connected(self) -> bool:
        """Whether records can come now; a lost connection is made again while a record is asked for."""
        return self._subscriber.is_connected

    @property
    def fault(self) -> str:
        """Why the last connection was lost or refused; empty while there is one."""
        return self._subscriber.fault

    @property
    def positions(self) -> dict[TopicPartition, ResumePoint]:
        """Where to continue in mode `all`, after the records that were handed out."""
        return self._subscriber.positions.points

    @property
    def topic_ids(self) -> dict[TopicPartition, str]:
        """The topic that the records of each partition are of: another one may have its name later."""
        return self._subscriber.positions.topic_ids

    @property
    def resets(self) -> list[Reset]:
        """What the broker has declared void, oldest first."""
        return self._subscriber.resets

    async def close(self) -> None:
        await self._subscriber.close()


class PushConsumer:
    """The same for threads: an iterator; its connection lives on a thread of its own."""

    def __init__(
        self,
        servers: Servers,
        topics: str | Iterable[str],
        *,
        positions: dict[TopicPartition, ResumePoint] | None = None,
        on_reset: Callable[[Refresh], Reached] | None = None,
        on_ready: Callable[[Refresh], None] | None = None,
        on_void: Callable[[Reset], None] | None = None,
        **settings: Any,
    ) -> None:
        """As of `AsyncPushConsumer`; callbacks run on the thread that asks for the next record."""
        self._callbacks = _Callbacks(on_reset, on_ready, on_void)
        self._consumer = AsyncPushConsumer(servers, topics, positions=positions, **settings)
        self._io = IoLoop.start("qanat-push-consumer")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Delivered:
        return self.next()

    def next(self, timeout_s: float | None = None) -> Delivered:
        """The next record; the one before it counts as processed. Raises `TimeoutError` where none comes in time, and
        what a callback raises."""
        return self.next_batch(1, timeout_s)[0]

    def next_batch(self, max_records: int = 10_000, timeout_s: float | None = None) -> list[Delivered]:
        """The records that have arrived, one at least, in their order; those of the batch before count as processed.
        All of a partition belong to one generation."""
        subscriber = self._consumer._subscriber
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            left_s = None if until is None else max(until - time.monotonic(), 0)
            found = self._io.submit(_within(subscriber.next_batch(max_records), left_s)).result()
            if isinstance(found, list):
                return found
            try:
                reached = self._callbacks.call(found)
            except BaseException:
                self._io.soon(subscriber.fail, found)
                raise
            self._io.soon(subscriber.answer, found, reached)

    def refresh_of(self, record: Delivered) -> Refresh | None:
        """The refresh whose new generation the record that was handed out last belongs to; None where it belongs to
        what is served."""
        return self._consumer.refresh_of(record)

    def done(self) -> None:
        """The record, or every record of the batch, is processed; asking for the next one says the same."""
        self._io.soon(self._consumer.done)

    def release(self) -> None:
        """Let the queue give the record to another worker."""
        self._io.soon(self._consumer.release)

    def reject(self) -> None:
        """The record can never be processed: the queue gives it to nobody any more."""
        self._io.soon(self._consumer.reject)

    @property
    def positions(self) -> dict[TopicPartition, ResumePoint]:
        """Where to continue in mode `all`, after the records that were handed out."""
        return self._consumer.positions

    @property
    def topic_ids(self) -> dict[TopicPartition, str]:
        """The topic that the records of each partition are of: another one may have its name later."""
        return self._consumer.topic_ids

    def close(self) -> None:
        self._io.submit(self._consumer.close()).result()
        self._io.close()
