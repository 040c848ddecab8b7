"""The worker of one `@app.table_batch` handler: one Arrow batch after another, each committed when it is handled.

Rule 1: a failed batch is tried again, whole, before the next one. A batch that is given up stops the app, is skipped,
        or pauses the handler until `resume`.
Rule 2: rows of a partition that was revoked while their batch was built are left out, and nothing is committed there:
        its next owner has them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from typing import Any

from qanat.client.app.handlers import BatchHandler, HandlerFailedError
from qanat.client.app.health import COMMITS, CONSUMER, FAILING_S, Part, Stall
from qanat.client.app.metrics import HandlerCounters
from qanat.client.app.own_context import in_own_context
from qanat.client.app.ports import StreamConsumer
from qanat.client.app.worker_tools import Tools
from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition
from qanat.telemetry.events import RateLimitedEvent, log_event

_FAULT_PAUSE_S = 0.5


class BatchWorker:
    """One handler in one process: a member of its group."""

    def __init__(self, handler: BatchHandler, tools: Tools) -> None:
        self.handler = handler
        self.part = Part(f"handler {handler.name} of {', '.join(handler.topics)}")
        self.counters = HandlerCounters(handler.name, handler.group)
        self.consumer: StreamConsumer | None = None
        self._tools = tools
        self._call = tools.pools.call_of(handler, self.part)
        self._next: asyncio.Task[Any] | None = None
        self._idle = asyncio.Event()
        self._idle.set()
        self._mine: dict[TopicPartition, int] = {}
        """The partitions of this member, with the offset after the last row taken of each."""
        self._lost: set[TopicPartition] = set()
        """Partitions that were revoked while the running batch was handled."""
        self._resumed = asyncio.Event()
        self._is_draining = False
        self._report = RateLimitedEvent("a handler's consumer has a fault")

    async def start(self) -> None:
        """Join the group; raises where no broker can be reached."""
        self.consumer = self._tools.clients.batch_consumer(self.handler, self)
        await self.consumer.start()

    async def run(self) -> None:
        """Handle batches until `drain`."""
        assert self.consumer is not None
        batches = self.consumer.arrow(self.handler.rows, self.handler.every_s)
        while not self._is_draining:
            try:
                batch = await self._next_batch(batches)
            except QanatError as fault:
                self._faulty(fault, CONSUMER)
                await asyncio.sleep(_FAULT_PAUSE_S)
                batches = self.consumer.arrow(self.handler.rows, self.handler.every_s)
                continue
            if batch is None:
                break
            self.part.recovered()
            batch = self._rows_of_mine(batch)
            if not batch.num_rows:
                continue
            self._tools.tracing.look()
            self._idle.clear()
            try:
                await self._handle(batch)
            finally:
                self.part.moved(self)
                self._idle.set()

    async def _next_batch(self, batches: AsyncIterator[Any]) -> Any:
        """The next batch; None where the worker stops or the consumer has ended."""
        self._next = asyncio.ensure_future(_anext(batches))
        try:
            return await self._next
        except asyncio.CancelledError:
            if not self._is_draining:
                raise
            return None
        finally:
            self._next = None

    def _rows_of_mine(self, batch: Any) -> Any:
        """The batch without rows that others have by now, or that were taken already."""
        found = spans_of(batch)
        if any(at not in self._mine or first < self._mine[at] for at, (first, _) in found.items()):
            import pyarrow as pa  # type: ignore[import-untyped]

            batch = batch.filter(pa.array([self._is_mine(*row) for row in rows_of(batch)], pa.bool_()))
        for at, (_, end) in found.items():
            if at in self._mine:
                self._mine[at] = max(self._mine[at], end)
        return batch

    def _is_mine(self, topic: str, partition: int, offset: int) -> bool:
        at = TopicPartition(topic, partition)
        return at in self._mine and offset >= self._mine[at]

    async def _handle(self, batch: Any) -> None:
        """Handle one batch until it succeeds or is given up, and commit it."""
        handler, attempt = self.handler, 1
        loop = asyncio.get_running_loop()
        failed_s = 0.0
        self._lost.clear()
        while True:
            begin_s = loop.time()
            try:
                await in_own_context(self._call_traced(batch))
                break
            except Exception as fault:
                self.counters.failed += 1
                pause_s = handler.retry.pause_s(attempt, fault, self._tools.random.random())
                where = ", ".join(f"{at} up to offset {offset - 1}" for at, offset in offsets_of(batch).items())
                if pause_s is None and handler.give_up == "skip":
                    log_event("a handler gave up a batch", level="error", at=where, reason=repr(fault))
                    self.counters.skipped += batch.num_rows
                    await self._commit_batch(batch)
                    return
                if pause_s is None and handler.give_up == "pause":
                    await self._pause(where, fault)
                    if self._is_draining:
                        return
                    attempt = 1
                    continue
                if pause_s is None:
                    raise HandlerFailedError(
                        f"handler {handler.name} (group {handler.group}) failed {attempt} times with a batch of "
                        f"{where}: {type(fault).__name__}: {fault}"
                    ) from fault
                log_event("a batch failed, and is tried again", level="warning", at=where, reason=repr(fault))
                failed_s = failed_s or loop.time()
                if attempt > 1:
                    reason = f"a batch of {where} has failed {attempt} times: {fault!r}"
                    self.part.stalled(self, Stall(failed_s + FAILING_S, reason))
            if self._is_draining:
                return
            attempt += 1
            self.counters.retried += 1
            await asyncio.sleep(pause_s)
        self.counters.handled += batch.num_rows
        self.counters.durations_s.observe(loop.time() - begin_s)
        await self._commit_batch(batch)

    async def _pause(self, where: str, fault: Exception) -> None:
        """Keep the batch, and wait until the app is resumed or stops."""
        log_event("a batch failed, its handler is paused", level="error", at=where, reason=repr(fault))
        self.part.paused[where] = f"{type(fault).__name__}: {fault}"
        self._resumed.clear()
        await self._resumed.wait()

    def resume(self) -> None:
        """Try the batch again that paused the handler."""
        if self.part.paused:
            log_event("a paused handler goes on", handler=self.handler.name)
        self.part.paused.clear()
        self._resumed.set()

    async def _commit_batch(self, batch: Any) -> None:
        await self._commit({at: offset for at, offset in offsets_of(batch).items() if at not in self._lost})

    async def _call_traced(self, batch: Any) -> None:
        tracing = self._tools.tracing
        with tracing.handling_batch(self.handler, headers_of(batch) if tracing.is_recording else []):
            await self._call(batch, None)

    async def _commit(self, offsets: dict[TopicPartition, int]) -> None:
        assert self.consumer is not None
        if not offsets:
            return
        try:
            await self.consumer.commit(offsets)
            self.counters.commits += 1
            self.part.recovered(COMMITS)
        except QanatError as fault:
            # The batch is handled again after a restart: at least once.
            self._faulty(f"offsets cannot be committed: {fault}", COMMITS)

    async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """A batch of them will come."""
        self._mine.update(dict.fromkeys(partitions, 0))

    async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Let the running batch finish and commit, within the grace."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._tools.grace_s):
                await self._idle.wait()
        await self.on_lost(partitions)

    async def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Others have them: the running batch must not commit."""
        self._lost.update(partitions)
        for at in partitions:
            self._mine.pop(at, None)

    def _faulty(self, fault: object, source: str) -> None:
        self.part.failed(str(fault), asyncio.get_running_loop().time(), source)
        self._report(handler=self.handler.name, reason=str(fault))

    # The end

    def stop_polling(self) -> None:
        self._is_draining = True
        self._resumed.set()
        if self._next is not None:
            self._next.cancel()

    async def drain(self, until_s: float) -> None:
        """Let the running batch finish, until a time of the loop's clock."""
        self.stop_polling()
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until_s):
                await self._idle.wait()

    async def close(self) -> None:
        if self.consumer is not None:
            await self.consumer.close()

    def measure(self) -> HandlerCounters:
        """The counters, with the gauges of this moment."""
        self.counters.running = 0 if self._idle.is_set() else 1
        return self.counters


async def _anext(batches: AsyncIterator[Any]) -> Any:
    return await anext(batches, None)


def offsets_of(batch: Any) -> dict[TopicPartition, int]:
    """The offsets after a batch, by partition."""
    return {at: end for at, (_, end) in spans_of(batch).items()}


def spans_of(batch: Any) -> dict[TopicPartition, tuple[int, int]]:
    """The first offset and the one after the last, by partition: columns name topic, partition and offset of rows."""
    import pyarrow as pa

    table = pa.Table.from_batches([batch.select(["topic", "partition", "offset"])])
    found = table.group_by(["topic", "partition"]).aggregate([("offset", "min"), ("offset", "max")]).to_pylist()
    return {TopicPartition(one["topic"], one["partition"]): (one["offset_min"], one["offset_max"] + 1) for one in found}


def rows_of(batch: Any) -> Iterator[tuple[str, int, int]]:
    """Topic, partition and offset of each row."""
    columns = [batch.column(name).to_pylist() for name in ("topic", "partition", "offset")]
    return zip(*columns, strict=True)


def headers_of(batch: Any) -> list[tuple[tuple[str, bytes | None], ...]]:
    """The headers of each row that has any, for links of traces; at most a hundred."""
    if "headers" not in batch.schema.names:
        return []
    found = (one for one in batch.column("headers").slice(0, 100).to_pylist() if one)
    return [tuple((str(header["key"]), header["value"]) for header in one) for one in found]
