"""The worker of one `@app.queue` handler: takes locked records, runs the handler, acknowledges each.

Rule 1: a record is accepted only after its handler returned, and everything it sends is acknowledged.
Rule 2: a failed record keeps its lock for the pause of its retry and is released then; one that is given up goes to
        the dead-letter topic, or is rejected.
Rule 3: a record that pauses its handler is released, and nothing more is taken until `resume`.
Rule 4: when a lock is lost, the handler is cancelled, and its late acknowledgement does not count: another worker has
        the record. The delivery count is the fencing token.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from qanat.client.app.context import Context
from qanat.client.app.dead_letters import letter
from qanat.client.app.durations import span_s
from qanat.client.app.failures import decide, give_up, wish_of
from qanat.client.app.handlers import HandlerFailedError, QueueHandler, Reaction, described
from qanat.client.app.health import COMMITS, CONSUMER, FAILING_S, Part, Stall
from qanat.client.app.metrics import HandlerCounters
from qanat.client.app.ports import QueueSource, Raw
from qanat.client.app.sending import Send
from qanat.client.app.stream_worker import write
from qanat.client.app.worker_tools import Tools
from qanat.client.errors import LockLostError, SerializationError
from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition
from qanat.telemetry.events import RateLimitedEvent, failure, log_event

_POLL_S = 0.5
_FAULT_PAUSE_S = 0.5
_WAITING_FACTOR = 4
"""Records that wait for their retry, per slot: their locks are held meanwhile."""


class QueueWorker:
    """One handler in one process: a member of its share group."""

    def __init__(self, handler: QueueHandler, tools: Tools) -> None:
        self.handler = handler
        self.part = Part(f"handler {handler.name} of {', '.join(handler.topics)}")
        self.counters = HandlerCounters(handler.name, handler.group)
        self.consumer: QueueSource | None = None
        self._tools = tools
        self._call = tools.pools.call_of(handler, self.part)
        self._tasks: dict[asyncio.Task[None], tuple[str, int, int]] = {}
        """Each with its record, which two may have: one whose lock is lost, and the next delivery."""
        self._contexts: dict[asyncio.Task[None] | None, Context] = {}
        self._pausing = 0
        self._failing_s: tuple[float, float] | None = None
        """The first and the last of failures without a success between them."""
        self._error_handler = handler.on_error or tools.error_handler
        self._failure: HandlerFailedError | None = None
        """What ends the app."""
        self._changed = asyncio.Event()
        self._is_draining = False
        self._report = RateLimitedEvent("a handler's queue has a fault")

    async def start(self) -> None:
        """Join the share group; raises where no broker can be reached."""
        self.consumer = self._tools.clients.queue_consumer(self.handler, self.lock_lost)
        await self.consumer.start()

    async def run(self) -> None:
        """Take records and handle them until `drain`; raises what ends the app."""
        assert self.consumer is not None
        while not self._is_draining:
            if self._failure is not None:
                self.part.failed(str(self._failure), asyncio.get_running_loop().time())
                raise self._failure
            free = self.handler.concurrency - (len(self._tasks) - self._pausing)
            if free <= 0 or self.part.paused or self._pausing >= _WAITING_FACTOR * self.handler.concurrency:
                self._changed.clear()
                await self._changed.wait()
                continue
            try:
                records = await self.consumer.poll(free, _POLL_S)
            except QanatError as fault:
                self._faulty(fault)
                await asyncio.sleep(_FAULT_PAUSE_S)
                continue
            self.part.recovered()
            self._tools.tracing.look()
            for record in records:
                self._begin(record)

    def _begin(self, record: Raw) -> None:
        at = (record.topic, record.partition, record.offset)
        task = asyncio.create_task(self._handle(record), name=f"{self.handler.name} {at}")
        self._tasks[task] = at
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        self._contexts.pop(task, None)
        self._changed.set()

    def lock_lost(self, partition: TopicPartition, offset: int, reason: str) -> None:
        """Another worker may have the record: cancel its handler."""
        at = (partition.topic, partition.partition, offset)
        for task in [task for task, place in self._tasks.items() if place == at]:
            if task in self._contexts:
                self._contexts[task].is_cancelled = True
            self.counters.locks_lost += 1
            where = described(self.handler, *at)
            log_event("a lock is lost, its handler is cancelled", level="warning", at=where, reason=reason)
            task.cancel()

    async def _handle(self, record: Raw) -> None:
        with self._tools.tracing.handling(self.handler, record):
            try:
                await self._attempt(record)
            except QanatError as fault:
                # The record stays locked until its lock expires; then it is delivered again.
                self._faulty(f"{self._at(record)}: {fault}", COMMITS)
            except Exception as fault:  # noqa: BLE001 - the task's owner is this worker
                failure("a bug while a queue's record was handled", fault, at=self._at(record))
                self._faulty(f"{self._at(record)}: {fault!r}", COMMITS)

    async def _attempt(self, record: Raw) -> None:
        handler = self.handler
        try:
            payload = handler.deserializer.decode(record.topic, record.value, record.headers)
        except SerializationError as fault:
            await self._undecodable(record, fault)
            return
        count = max(record.delivery_count, 1)
        context = self._contexts[asyncio.current_task()] = Context(handler.name, record, count, count)
        begin_s = asyncio.get_running_loop().time()
        try:
            await self._call(payload, context)
        except Exception as fault:  # noqa: BLE001 - user code
            await self._failed(record, context, fault)
            return
        self.counters.durations_s.observe(asyncio.get_running_loop().time() - begin_s)
        self._succeeded()
        if await self._acknowledge(record, "ACCEPT"):
            self.counters.handled += 1

    async def _failed(self, record: Raw, context: Context, fault: Exception) -> None:
        self.counters.failed += 1
        wish = await wish_of(self._error_handler, self.handler, fault, context)
        decision = decide(self.handler, context.attempt, fault, self._tools.random.random(), wish)
        if decision.reaction != "retry":
            await self._give_up(record, fault, decision.reaction)
            return
        log_event("a handler failed, and tries again", level="warning", at=self._at(record), reason=repr(fault))
        self._note_failure(f"{self._at(record)} has failed, as all since the last success: {fault!r}")
        self.counters.retried += 1
        self._pausing += 1
        self._changed.set()
        try:
            if not self._is_draining:
                await asyncio.sleep(decision.pause_s)
        finally:
            self._pausing -= 1
        await self._acknowledge(record, "RELEASE")

    def _note_failure(self, reason: str) -> None:
        """Tell health of a handler that nothing succeeds with; one record may fail here and be handled elsewhere."""
        now_s, forget_s = asyncio.get_running_loop().time(), FAILING_S + span_s(self.handler.retry.backoff)[1]
        if self._failing_s is None or now_s > self._failing_s[1] + forget_s:
            self._failing_s = now_s, now_s
            return
        first_s = self._failing_s[0]
        self._failing_s = first_s, now_s
        self.part.stalled(self, Stall(first_s + FAILING_S, reason, now_s + forget_s))

    def _succeeded(self) -> None:
        self._failing_s = None
        self.part.moved(self)

    async def _undecodable(self, record: Raw, fault: Exception) -> None:
        """Such a record is not tried again, unless somebody asks."""
        count = max(record.delivery_count, 1)
        context = Context(self.handler.name, record, count, count)
        wish = await wish_of(self._error_handler, self.handler, fault, context)
        if wish == "retry":
            await self._failed(record, context, fault)
            return
        await self._give_up(record, fault, wish or give_up(self.handler).reaction)

    async def _give_up(self, record: Raw, fault: Exception, reaction: Reaction) -> None:
        handler, at = self.handler, self._at(record)
        self._succeeded()  # Its policy ends it.
        if reaction == "pause":
            log_event("a handler failed, its queue is paused", level="error", at=at, reason=repr(fault))
            self.part.paused[f"{record.topic}-{record.partition}"] = (
                f"offset {record.offset}: {type(fault).__name__}: {fault}"
            )
            await self._acknowledge(record, "RELEASE")
            return
        if reaction == "stop":
            self._failure = HandlerFailedError(f"{at} failed: {type(fault).__name__}: {fault}; its error handler stops")
            await self._acknowledge(record, "RELEASE")
            self._changed.set()
            return
        log_event("a handler gave up a record", level="error", at=at, reason=repr(fault))
        if reaction == "skip" or handler.dead_letter is None:
            self.counters.skipped += 1
            await self._acknowledge(record, "REJECT")
            return
        await self._write([letter(handler.dead_letter, record, handler.group, max(record.delivery_count, 1), fault)])
        self.counters.dead_lettered += 1
        await self._acknowledge(record, "ACCEPT")

    def resume(self) -> None:
        """Take records again."""
        if self.part.paused:
            log_event("a paused queue goes on", handler=self.handler.name)
        self.part.paused.clear()
        self._changed.set()

    async def _write(self, sends: Sequence[Send]) -> None:
        for one in sends:
            await (await write(self._tools.sender, self._tools.tracing.injected(one)))

    async def _acknowledge(self, record: Raw, verdict: str) -> bool:
        """Whether the verdict counts."""
        from qanat.client.queue.verdicts import Verdict

        assert self.consumer is not None
        try:
            await self.consumer.acknowledge(record, Verdict[verdict])
        except LockLostError as fault:
            self.counters.locks_lost += 1
            log_event("a late acknowledgement was refused", level="warning", at=self._at(record), reason=str(fault))
            return False
        self.part.recovered(COMMITS)
        return True

    def _at(self, record: Raw) -> str:
        return described(self.handler, record.topic, record.partition, record.offset)

    def _faulty(self, fault: object, source: str = CONSUMER) -> None:
        self.part.failed(str(fault), asyncio.get_running_loop().time(), source)
        self._report(handler=self.handler.name, reason=str(fault))

    # The end

    def stop_polling(self) -> None:
        self._is_draining = True
        self._changed.set()

    async def drain(self, until_s: float) -> None:
        """Let handlers finish, until a time of the loop's clock."""
        self.stop_polling()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=max(0.0, until_s - asyncio.get_running_loop().time()))

    async def close(self) -> None:
        """Cancel what still runs, and leave: the broker releases its locks."""
        for context in self._contexts.values():
            context.is_cancelled = True
        tasks: list[Any] = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self.consumer is not None:
            await self.consumer.close()

    def measure(self) -> HandlerCounters:
        """The counters, with the gauges of this moment."""
        self.counters.running, self.counters.held = len(self._tasks) - self._pausing, len(self._tasks)
        return self.counters
