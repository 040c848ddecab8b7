"""The asyncio consumer: records one by one, in batches, or as Arrow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any

from qanat.client.consumer.consumer_core import ConsumerCore, Hook
from qanat.client.consumer.consumer_state import ConsumerState
from qanat.client.consumer.offset_stores import OffsetStore
from qanat.client.consumer.reading import Reading, commit_values
from qanat.client.consumer.settings import ConsumerSettings, checked_topics
from qanat.client.errors import ClosedError
from qanat.client.io_loop import IoLoop
from qanat.client.records import Record
from qanat.client.settings import Servers, read_settings
from qanat.connection.consuming.group_commits import CommittedOffset
from qanat.model.ids import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

AsyncHook = Callable[[list[TopicPartition]], Awaitable[None]]
_ROWS = 100_000


class AsyncConsumer(ConsumerState):
    """Reads topics, as a member of a group or alone. One task reads at a time.

    >>> async with AsyncConsumer("localhost:9092", "orders", group="billing") as consumer:
    ...     async for record in consumer:
    ...         await bill(record.value)

    With automatic commits, a record is finished when the next one is asked for; only finished records are committed.
    Heartbeats run apart: a slow handler causes no rebalance.
    """

    def __init__(
        self,
        bootstrap_servers: Servers,
        *topics: str,
        group: str | None = None,
        key: object = None,
        value: object = None,
        io: IoLoop | None = None,
        on_assigned: AsyncHook | None = None,
        on_revoked: AsyncHook | None = None,
        on_lost: AsyncHook | None = None,
        offset_store: OffsetStore | None = None,
        **settings: object,
    ) -> None:
        """Without a group, all partitions of the topics are read, from where `auto_offset_reset` says.

        A revocation waits for `on_revoked`, at most `max_poll_interval_ms`. Raises `UnknownSettingError`.
        """
        given = settings if group is None else {**settings, "group_id": group}
        self._settings = read_settings(ConsumerSettings, bootstrap_servers, given)
        self._topics = checked_topics(topics)
        self._key, self._value = key, value
        self._io = io
        self._owns_io = io is None
        self._hooks = (on_assigned, on_revoked, on_lost)
        self._store = offset_store
        self._reading: Reading | None = None
        self._is_closed = False

    async def __aenter__(self) -> AsyncConsumer:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._reading is not None:
            self._reading.buffer.finish()
        await self.close()

    async def start(self) -> AsyncConsumer:
        """Connect and join; the first call that reads does it as well."""
        if self._is_closed:
            raise ClosedError("this consumer is closed: make another one")
        if self._reading is None:
            io = self._io = self._io or IoLoop.start("qanat-consumer")
            core = ConsumerCore(self._settings, self._topics, io)
            core.store = self._store
            core.on_assigned, core.on_revoked, core.on_lost = (self._on_user_loop(hook) for hook in self._hooks)
            reading = Reading(core, self._key, self._value)
            try:
                await io.run(core.open())
            except BaseException:
                await io.run(core.close())
                await self._close_io()
                raise
            self._reading = reading
        return self

    async def close(self) -> None:
        """Commit what is finished, leave the group, and end. Records in hand count as unfinished."""
        is_first, self._is_closed = not self._is_closed, True
        if self._reading is not None and is_first:
            assert self._io is not None
            try:
                if not self._io.is_closed:
                    await self._io.run(self._reading.core.close())  # Its hooks may still commit.
            finally:
                self._reading = None
                await self._close_io()

    async def _close_io(self) -> None:
        if self._owns_io and self._io is not None:
            await asyncio.to_thread(self._io.close)

    def _on_user_loop(self, hook: AsyncHook | None) -> Hook | None:
        """The hook, called from the I/O loop, running on the caller's."""
        io, loop = self._io, asyncio.get_running_loop()
        if hook is None or io is None or io.is_here or io.loop is loop:
            return hook

        async def call(partitions: list[TopicPartition]) -> None:
            async def run() -> None:
                await hook(partitions)

            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(run(), loop))

        return call

    # Reading

    async def poll(self, max_records: int | None = None, timeout_s: float = 1.0) -> list[Record[Any, Any]]:
        """Up to so many records, fewer where fewer are there, none after the timeout.

        The records of the call before are finished by this one.
        """
        reading = await self._ready()
        most = self._settings.max_poll_records if max_records is None else max_records
        loop = asyncio.get_running_loop()
        end_s = loop.time() + timeout_s
        await asyncio.sleep(0)  # Others on this loop run even where records are always there.
        while True:
            records = reading.take(most)
            if records or loop.time() >= end_s:
                return records
            await self._wait(reading, end_s - loop.time())

    async def __aiter__(self) -> AsyncIterator[Record[Any, Any]]:
        """Records one by one, without end. A record is finished when the next one is asked for."""
        while True:
            reading = await self._ready()
            records = reading.take_one_by_one(self._settings.max_poll_records)
            for record in reading.walk(records):
                yield record
            await (self._wait(reading, None) if not records else asyncio.sleep(0))

    async def batches(
        self, max_records: int | None = None, timeout_s: float = 1.0
    ) -> AsyncIterator[list[Record[Any, Any]]]:
        """Lists of records, none of them empty, without end. A batch is finished when the next one is asked for."""
        while True:
            records = await self.poll(max_records, timeout_s)
            if records:
                yield records

    async def arrow(self, rows: int = _ROWS, every_s: float = 1.0) -> AsyncIterator[pa.RecordBatch]:
        """Arrow record batches of at most `rows`, at the latest `every_s` after their first record arrived.

        Keys and values are bytes. All batches of one fetch are finished when the next after them is asked for.
        """
        from qanat.client.consumer.arrow_batches import record_batches

        (await self._ready()).core.read_raw()
        loop = asyncio.get_running_loop()
        while True:
            reading = await self._ready()
            await self._wait(reading, None)
            reading.check()
            end_s = loop.time() + every_s
            while loop.time() < end_s and reading.buffer.ready_rows < rows and not reading.buffer.is_full:
                await self._wait_for_more(reading, end_s - loop.time())
            chunks = reading.buffer.take_chunks(rows)
            for batch in await asyncio.to_thread(lambda: list(record_batches(chunks, rows))):  # noqa: B023
                yield batch

    async def _ready(self) -> Reading:
        if self._reading is None:
            await self.start()
        assert self._reading is not None
        assert self._io is not None
        self._io.check()
        return self._reading

    async def _wait(self, reading: Reading, timeout_s: float | None) -> None:
        """Wait until there is something to take, or to hear."""
        woken = self._waker(reading)
        if not reading.has_something:
            await asyncio.wait([woken], timeout=timeout_s)
        reading.buffer.waker = None

    async def _wait_for_more(self, reading: Reading, timeout_s: float) -> None:
        await asyncio.wait([self._waker(reading)], timeout=timeout_s)
        reading.buffer.waker = None

    def _waker(self, reading: Reading) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()

        def set_woken() -> None:
            if not woken.done():
                woken.set_result(None)

        def wake() -> None:
            reading.buffer.waker = None
            loop.call_soon_threadsafe(set_woken)

        reading.buffer.waker = wake
        return woken

    # Offsets

    async def commit(self, offsets: Mapping[TopicPartition, int | CommittedOffset] | None = None) -> None:
        """Commit these offsets, of the next records to read; without any, everything that was handed out.

        Raises `FencedError` where the group has given a partition to another member.
        """
        reading = await self._ready()
        await self._run(reading.core.commit(commit_values(offsets)))

    async def committed(self, *partitions: TopicPartition) -> dict[TopicPartition, int]:
        """The committed offsets of these partitions, or of the assigned ones."""
        reading = await self._ready()
        found: dict[TopicPartition, int] = await self._run(reading.core.committed(partitions or self.assignment))
        return found

    async def seek(self, partition: TopicPartition, where: int | datetime | str) -> None:
        """Continue at an offset, at the first record of a time or later, at `"earliest"` or `"latest"`."""
        await self._run((await self._ready()).core.seek(partition, where))

    async def rewind(self) -> None:
        """Read again what was handed out and is not committed: after a transaction that was aborted.

        A partition without a committed offset goes back to where it began.
        """
        await self._run((await self._ready()).core.rewind())

    async def _run(self, work: Any) -> Any:
        assert self._io is not None
        return await self._io.run(work)
