"""The worker of one `@app.stream` handler: polls, runs handlers in slots, retries, commits. The shell of `Lanes`.

Rule 1: a record is finished when its handler returned and everything that it sends is acknowledged, or when its dead
        letter is. Only then may its offset be committed.
Rule 2: a revoked partition begins nothing more; what runs may finish within the grace, and is committed. What is left
        is cancelled and forgotten: the next owner handles it again.
Rule 3: a record that pauses its partition stays uncommitted, and its partition begins nothing more, until `resume`.
Rule 4: a fault of the network never ends the loop: it is reported to health, and tried again.

With `exactly_once`, `transactions.py` commits instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from qanat.client.app.context import Context
from qanat.client.app.dead_letters import letter
from qanat.client.app.failures import decide, give_up, wish_of
from qanat.client.app.handlers import HandlerFailedError, Reaction, StreamHandler, described
from qanat.client.app.health import COMMITS, CONSUMER, FAILING_S, STALL_TIMEOUT_S, Part, Stall
from qanat.client.app.lanes import Lanes, Work
from qanat.client.app.metrics import HandlerCounters
from qanat.client.app.ports import Raw, Sender, StreamConsumer
from qanat.client.app.sending import Send, as_sends
from qanat.client.app.slots import Slots
from qanat.client.app.worker_tools import Tools
from qanat.client.errors import SerializationError
from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition
from qanat.telemetry.events import RateLimitedEvent, log_event

POLL_MAX = 500
_POLL_S = 0.5
_PROBE_S = 2.0
"""How often a silent broker is asked, and how long it may take."""
_FAULT_PAUSE_S = 0.5
"""Pause after a fault of the consumer, which has its own retries and timeouts."""
_LETTER_PAUSE_S = 1.0
"""Pause before a dead letter is tried again that could not be written."""
_COMMIT_PAUSE_MAX_S = 5.0
"""The longest pause between commits that fail: each of a transaction costs a new producer."""

Commit = Callable[[dict[TopicPartition, int]], Awaitable[None]]


class StreamWorker:
    """One handler in one process: a member of its group."""

    def __init__(self, handler: StreamHandler, tools: Tools) -> None:
        self.handler = handler
        self.clients = tools.clients
        self.part = Part(f"handler {handler.name} of {', '.join(handler.topics)}")
        self.counters = HandlerCounters(handler.name, handler.group)
        self.consumer: StreamConsumer | None = None
        self.lanes: Lanes[Raw] = Lanes(
            handler.order, handler.concurrency, held_max=handler.held_max, ahead_max=handler.ahead_max
        )
        self.commit_now: Commit = self._commit_offsets
        """Commits offsets, and with `exactly_once` what was sent."""
        self.before_commit: Callable[[], Awaitable[None]] | None = None
        """Called before it is decided what may be committed."""
        self.on_close: Callable[[], Awaitable[None]] | None = None
        """Called at the end, before the consumer leaves."""
        self._error_handler = handler.on_error or tools.error_handler
        self._sender = tools.sender
        self._random = tools.random
        self._grace_s = tools.grace_s
        self._tracing = tools.tracing
        self._call = tools.pools.call_of(handler, self.part)
        self._decode = handler.deserializer.decode
        self._has_context = handler.signature.has_context
        self._contexts: dict[Work[Raw], Context] = {}
        self._slots = Slots(self.lanes, handler.concurrency, self._begin)
        self._slots.on_failure = self._notice
        self._timer: asyncio.TimerHandle | None = None
        self._changed = asyncio.Event()
        """Set when room may have come, or the worker should stop."""
        self._waiting = 0
        self._has_failed = False
        """Whether the last poll failed."""
        self._heard_s = 0.0
        """When a broker last answered."""
        self._is_draining = False
        self._committing = asyncio.Lock()
        self._report = RateLimitedEvent("a handler's consumer has a fault")

    # The loops

    async def start(self) -> None:
        """Join the group; raises where no broker can be reached."""
        self.consumer = self.clients.stream_consumer(self.handler, self)
        await self.consumer.start()

    async def run(self) -> None:
        """Poll and handle until `drain`; raises what ends the app."""
        assert self.consumer is not None
        self._is_heard()
        beside = [
            asyncio.create_task(self._commit_often(), name=f"commits of {self.handler.name}"),
            asyncio.create_task(self._probe_often(self.consumer), name=f"probes of {self.handler.name}"),
        ]
        for task in beside:
            task.add_done_callback(self._ended)
        try:
            while not self._is_draining and self._slots.failure is None:
                await self._poll_once(self.consumer)
        finally:
            for task in beside:
                task.cancel()
        if self._slots.failure is not None:
            self.part.failed(str(self._slots.failure), asyncio.get_running_loop().time())
            raise self._slots.failure

    def _ended(self, task: asyncio.Task[None]) -> None:
        """A task beside the polls has ended by a bug: the app must not go on without its commits."""
        if not task.cancelled() and task.exception() is not None:
            self._slots.fail(task.exception())

    async def _poll_once(self, consumer: StreamConsumer) -> None:
        lanes = self.lanes
        if lanes.room <= 0:
            await self._wait_for_room()
            return
        try:
            records = await consumer.poll(min(lanes.room, POLL_MAX), _POLL_S)
            self._throttle(consumer)
        except QanatError as fault:
            self._faulty(fault)
            self._has_failed = True
            await asyncio.sleep(_FAULT_PAUSE_S)
            return
        if records or self._has_failed:
            self._is_heard()
            self._has_failed = False
        if records:
            self._tracing.look()
            lanes.admit(records)
            self._slots.wake()
            # Handlers that never suspend must not wait for the next poll's answer.
            await asyncio.sleep(0)

    def _throttle(self, consumer: StreamConsumer) -> None:
        pause, resume = self.lanes.throttle()
        if pause:
            log_event("partitions paused behind a stuck record", level="warning", partitions=[str(at) for at in pause])
            consumer.pause(*pause)
        if resume:
            consumer.resume(*resume)

    async def _wait_for_room(self) -> None:
        while self.lanes.room <= 0 and not self._is_draining and self._slots.failure is None:
            await self._wait_for_change()

    async def _wait_for_change(self) -> None:
        """Wait until a record is finished, or something else happens that may end a wait."""
        self._waiting += 1
        self._changed.clear()
        try:
            await self._changed.wait()
        finally:
            self._waiting -= 1

    def _notice(self) -> None:
        self._changed.set()

    def _faulty(self, fault: object, source: str = CONSUMER) -> None:
        self.part.failed(str(fault), asyncio.get_running_loop().time(), source)
        self._report(handler=self.handler.name, reason=str(fault))

    def _is_heard(self) -> None:
        """A broker has answered."""
        self._heard_s = asyncio.get_running_loop().time()
        self.part.recovered()

    async def _probe_often(self, consumer: StreamConsumer) -> None:
        """Ask the group's coordinator while no records come: silence is either an idle topic or a stall."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_PROBE_S)
            if loop.time() - self._heard_s < _PROBE_S or not self.lanes.partitions:
                continue
            try:
                async with asyncio.timeout(_PROBE_S):
                    await consumer.committed(self.lanes.partitions[0])
            except (QanatError, TimeoutError) as fault:
                reason = str(fault) or f"no broker answers within {_PROBE_S:g} s"
                self.part.failed(reason, self._heard_s)
                self._report(handler=self.handler.name, reason=reason)
            else:
                self._is_heard()

    async def _commit_often(self) -> None:
        every_s = pause_s = self.handler.commit_every_s
        while True:
            await asyncio.sleep(pause_s)
            pause_s = every_s if await self.commit() else max(every_s, min(2 * pause_s, _COMMIT_PAUSE_MAX_S))

    # One record

    def _begin(self, work: Work[Raw]) -> Coroutine[Any, Any, None]:
        return self._traced(work) if self._tracing.is_traced(work.record) else self._handle(work)

    async def _traced(self, work: Work[Raw]) -> None:
        with self._tracing.handling(self.handler, work.record):
            await self._handle(work)

    async def _handle(self, work: Work[Raw]) -> None:
        context = self._context(work) if self._has_context else None
        begin_s = asyncio.get_running_loop().time()
        try:
            try:
                payload = self._decode(work.record.topic, work.record.value, work.record.headers)
            except SerializationError as fault:
                await self._failed(work, fault, context, is_undecodable=True)
                return
            failure = await self._attempt(work, payload, context)
            if failure is not None:
                await self._failed(work, failure, context)
                return
        except asyncio.CancelledError:
            self._cancelled(work)
            return
        finally:
            if context is not None:
                self._contexts.pop(work, None)
        counters = self.counters
        counters.handled += 1
        counters.durations_s.observe(asyncio.get_running_loop().time() - begin_s)
        self._finish(work)

    async def _attempt(self, work: Work[Raw], payload: object, context: Context | None) -> Exception | None:
        """Call the handler, and send what it returns; the exception where one of them fails."""
        try:
            result = await self._call(payload, context)
            if result is not None:
                await self._send(work, as_sends(result))
        except Exception as fault:  # noqa: BLE001 - user code
            return fault
        return None

    def _finish(self, work: Work[Raw]) -> None:
        self.lanes.finish(work)
        if work.failed_s >= 0:
            self.part.moved(work)
        if self._waiting:
            self._changed.set()

    def _context(self, work: Work[Raw]) -> Context:
        generation = getattr(getattr(self.consumer, "group_metadata", None), "generation_or_epoch", 0)
        context = self._contexts[work] = Context(self.handler.name, work.record, work.attempt, generation)
        return context

    async def _send(self, work: Work[Raw], sends: Sequence[Send]) -> None:
        if self.handler.exactly_once:
            # As bytes and checked by now: a bad result is a failure of this attempt, and not of the transaction.
            work.result = tuple([await encoded(self._sender, self._tracing.injected(one)) for one in sends]) or None
            return
        await self._write(sends)

    async def _write(self, sends: Sequence[Send]) -> None:
        """Send, and wait until all is acknowledged."""
        receipts = [await write(self._sender, self._tracing.injected(one)) for one in sends]
        for receipt in receipts:
            await receipt
        self.counters.sent += len(sends)

    def _cancelled(self, work: Work[Raw]) -> None:
        """The record's partition is revoked, or the worker stops: the next owner handles it again."""
        task = self._slots.running[work]
        if not work.is_revoked:
            raise asyncio.CancelledError
        while task.cancelling():
            task.uncancel()
        self.counters.revoked += 1
        self._finish(work)

    # Failures

    async def _failed(
        self, work: Work[Raw], fault: Exception, context: Context | None, *, is_undecodable: bool = False
    ) -> None:
        """Decide about a failed attempt. A payload that cannot be decoded is not tried again, unless somebody asks."""
        handler = self.handler
        if not is_undecodable:
            self.counters.failed += 1
        if work.is_revoked:
            self._finish(work)
            return
        wish = None
        if self._error_handler is not None:
            wish = await wish_of(self._error_handler, handler, fault, context or self._context(work))
            self._contexts.pop(work, None)
        if is_undecodable and wish is None:
            decision = give_up(handler)
        else:
            decision = decide(handler, work.attempt, fault, self._random.random(), wish)
        if decision.reaction == "retry":
            at = described(handler, work.record.topic, work.record.partition, work.record.offset)
            log_event(
                "a handler failed, and tries again", level="warning", at=at, attempt=work.attempt, reason=repr(fault)
            )
            self.counters.retried += 1
            self._note_failure(work, f"{at} has failed {work.attempt} times: {fault!r}")
            self._retry(work, decision.pause_s)
            return
        await self._give_up(work, fault, decision.reaction)

    def _note_failure(self, work: Work[Raw], reason: str) -> None:
        """A record that fails again and again is told to health."""
        if work.failed_s < 0:
            work.failed_s = asyncio.get_running_loop().time()
        else:
            self.part.stalled(work, Stall(work.failed_s + FAILING_S, reason))

    def _retry(self, work: Work[Raw], pause_s: float) -> None:
        self.lanes.retry(work, asyncio.get_running_loop().time() + pause_s)
        self._arm()

    async def _give_up(self, work: Work[Raw], fault: Exception, reaction: Reaction) -> None:
        handler, record = self.handler, work.record
        at = described(handler, record.topic, record.partition, record.offset)
        if reaction == "stop":
            attempts = work.attempt
            self.lanes.retry(work, float("inf"))
            raise HandlerFailedError(
                f"{at} failed after {attempts} tries: {type(fault).__name__}: {fault}; set dead_letter=, a longer "
                'retry=, or give_up="skip"'
            ) from fault
        if reaction == "pause":
            self._pause(work, fault)
            return
        log_event("a handler gave up a record", level="error", at=at, attempts=work.attempt, reason=repr(fault))
        if reaction == "skip" or handler.dead_letter is None:
            self.counters.skipped += 1
            self._finish(work)
            return
        try:
            await self._send(work, [letter(handler.dead_letter, record, handler.group, work.attempt, fault)])
        except QanatError as trouble:
            reason = f"the dead letter of {at} cannot be written: {trouble}"
            self._report(handler=handler.name, reason=reason)
            if work.failed_s < 0:
                work.failed_s = asyncio.get_running_loop().time()
            self.part.stalled(work, Stall(work.failed_s + STALL_TIMEOUT_S, reason))
            self._retry(work, _LETTER_PAUSE_S)
            return
        self.counters.dead_lettered += 1
        self._finish(work)

    # Pauses

    def _pause(self, work: Work[Raw], fault: Exception) -> None:
        """Begin nothing more of the record's partition, until `resume` or until another member has it."""
        at = work.place.at
        where = described(self.handler, at.topic, at.partition, work.record.offset)
        log_event("a handler failed, its partition is paused", level="error", at=where, reason=repr(fault))
        self.part.paused[str(at)] = f"offset {work.record.offset}: {type(fault).__name__}: {fault}"
        self.lanes.hold_back(work)
        self.part.moved(work)
        assert self.consumer is not None
        self._throttle(self.consumer)
        self._changed.set()

    def resume(self) -> None:
        """Go on with all paused partitions, each with the record that failed."""
        released = self.lanes.release()
        self.part.paused.clear()
        if released:
            log_event("paused partitions go on", handler=self.handler.name, partitions=[str(at) for at in released])
            self._slots.wake()
            self._changed.set()

    def _arm(self) -> None:
        """Set the timer for the next retry, and let run what is due."""
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due_s = self.lanes.wake(loop.time())
        if due_s is not None and due_s != float("inf"):
            self._timer = loop.call_at(due_s, self._arm)
        self._slots.wake()

    # Commits

    async def commit(self) -> bool:
        """Commit what is finished; False where a fault is reported, and tried again with the next commit."""
        async with self._committing:
            try:
                if self.before_commit is not None:
                    await self.before_commit()
                offsets = self.lanes.committable()
                if not offsets:
                    return True
                await self.commit_now(offsets)
            except QanatError as fault:
                self._faulty(f"offsets cannot be committed: {fault}", COMMITS)
                return False
            self.part.recovered(COMMITS)
            self.lanes.committed(offsets.items())
            self.counters.commits += 1
            return True

    async def _commit_offsets(self, offsets: dict[TopicPartition, int]) -> None:
        assert self.consumer is not None
        await self.consumer.commit(offsets)

    # Partitions come and go

    async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.lanes.assign(partitions)

    async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Finish what runs, commit, and forget; the group waits meanwhile."""
        await self._finish_running(partitions, self._grace_s)
        await self.commit()
        await self.on_lost(partitions)

    async def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Others have these partitions already: nothing may be committed."""
        self.lanes.revoke(partitions)
        for at in partitions:
            self.part.paused.pop(str(at), None)
        for stalled in [one for one in self.part.stalls if isinstance(one, Work) and one.is_revoked]:
            self.part.moved(stalled)
        for work, context in self._contexts.items():
            context.is_cancelled = context.is_cancelled or work.is_revoked
        self._slots.cancel_revoked()
        self._changed.set()

    async def _finish_running(self, partitions: Sequence[TopicPartition], grace_s: float) -> None:
        self.lanes.withhold(partitions)
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                while self.lanes.running_in(partitions) and self._slots.failure is None:
                    await self._wait_for_change()

    # The end

    def stop_polling(self) -> None:
        self._is_draining = True
        self._changed.set()

    async def drain(self, until_s: float) -> None:
        """Finish what runs, until a time of the loop's clock; commit what is finished."""
        self.stop_polling()
        grace_s = max(0.0, until_s - asyncio.get_running_loop().time())
        await self._finish_running(self.lanes.partitions, grace_s)
        await self.commit()

    async def close(self) -> None:
        """Cancel what still runs, and leave the group."""
        if self._timer is not None:
            self._timer.cancel()
        for context in self._contexts.values():
            context.is_cancelled = True
        await self._slots.close()
        self._grace_s = 0.0  # For the revocation by which the consumer leaves.
        if self.on_close is not None:
            await self.on_close()
        if self.consumer is not None:
            await self.consumer.close()

    def measure(self) -> HandlerCounters:
        """The counters, with the gauges of this moment."""
        self.counters.running, self.counters.held = self.lanes.running, self.lanes.held
        return self.counters


async def encoded(sender: Sender, one: Send) -> Send:
    """The record with key and value as bytes; raises where it could not be written."""
    value, key = await sender.encoded(
        one.topic,
        one.value,
        key=one.key,
        headers=one.headers,
        partition=one.partition,
        timestamp_ms=one.timestamp_ms,
    )
    return msgspec.structs.replace(one, value=value, key=key)


async def write(sender: Sender, one: Send) -> Any:
    """Hand one record to the producer; returns its receipt."""
    return await sender.send(
        one.topic,
        one.value,
        key=one.key,
        headers=one.headers,
        partition=one.partition,
        timestamp_ms=one.timestamp_ms,
    )
