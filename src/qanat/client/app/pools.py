"""How handlers are called: coroutines on the loop, others in threads, or in processes where they hold the GIL.

Rule 1: a coroutine is cancelled and a process killed where they take longer than `timeout`, or where their record is no
        longer this worker's. A thread cannot be stopped: its call returns when the thread ends, so that its record
        keeps its key and its slot, and nothing runs twice at once. What it returns late counts.
Rule 2: at the end of the worker nobody waits for threads any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from contextvars import copy_context
from typing import Any

from qanat.client.app.context import Context
from qanat.client.app.daemon_threads import DaemonThreads
from qanat.client.app.handler_processes import HandlerProcesses
from qanat.client.app.handlers import Handler
from qanat.client.app.health import STALL_TIMEOUT_S, Part, Stall
from qanat.telemetry.events import log_event

Call = Callable[[Any, Context | None], Awaitable[Any]]
"""A handler as workers call it."""


class Pools:
    """The pools of one worker, each begun on first use. A handler has its own, so that none waits for another's."""

    def __init__(self, *, is_simulated: bool = False) -> None:
        """A simulation has no processes: it runs their handlers as those of threads."""
        self._has_processes = not is_simulated
        self._threads: list[Executor] = []
        self._processes: list[HandlerProcesses] = []
        self._is_ending = False

    def call_of(self, handler: Handler, part: Part | None = None) -> Call:
        """The handler as a coroutine function of payload and context; `part` learns of calls that go on too long."""
        part = part or Part(handler.name)
        if not handler.signature.is_async:
            return self._call_elsewhere(handler, part)
        inner = _coroutine_function(handler)
        if handler.timeout_s is None:
            return inner
        return lambda payload, ctx: _limited(handler, part, ctx, inner(payload, ctx))

    def _call_elsewhere(self, handler: Handler, part: Part) -> Call:
        threads = DaemonThreads(handler.concurrency, f"qanat-{handler.name}")
        self._threads.append(threads)
        if handler.run_in == "process" and self._has_processes:
            return self._call_in_process(handler, part, threads)
        function, has_context = handler.function, handler.signature.has_context

        async def in_thread(payload: Any, ctx: Context | None) -> Any:
            arguments = (payload, ctx) if has_context else (payload,)
            # A thread handles many records: context variables come from the caller, and stay with the record.
            work = asyncio.get_running_loop().run_in_executor(threads, copy_context().run, function, *arguments)
            with _watched(handler, part, ctx):
                return await self._outcome(handler, work, ctx)

        return in_thread

    def _call_in_process(self, handler: Handler, part: Part, threads: Executor) -> Call:
        processes = HandlerProcesses(handler.name, handler.function, threads)
        self._processes.append(processes)
        has_context = handler.signature.has_context

        async def in_process(payload: Any, ctx: Context | None) -> Any:
            arguments = (payload, ctx) if has_context else (payload,)
            # The time of a handler begins when its process has imported it.
            process = await processes.ready()
            return await _limited(handler, part, ctx, processes.handle(process, *arguments))

        return in_process

    async def _outcome(self, handler: Handler, work: asyncio.Future[Any], ctx: Context | None) -> Any:
        """What a thread returns, when it has ended."""
        limit = asyncio.timeout(handler.timeout_s)
        try:
            async with limit:
                return await asyncio.shield(work)
        except asyncio.CancelledError:
            await self._outlast(work, ctx)
            raise
        except TimeoutError:
            if not limit.expired():
                raise  # The handler's own.
        await self._outlast(work, ctx)
        fault = work.exception() if work.done() else None
        if fault is not None or not work.done():
            raise _too_long(handler) from fault
        log_event("a handler returned after its timeout", level="warning", handler=handler.name)
        return work.result()

    async def _outlast(self, work: asyncio.Future[Any], ctx: Context | None) -> None:
        """Wait until a thread has ended, also where the wait is cancelled, but not at the end of the worker."""
        if ctx is not None:
            ctx.is_cancelled = True
        cancellation: asyncio.CancelledError | None = None
        while not work.done() and not self._is_ending:
            try:
                await asyncio.wait([work])
            except asyncio.CancelledError as fault:
                cancellation = fault
        work.add_done_callback(lambda one: one.cancelled() or one.exception())
        if cancellation is not None:
            raise cancellation

    def end(self) -> None:
        """From now on nobody waits for threads: the grace is over, or nothing runs."""
        self._is_ending = True

    def close(self) -> None:
        """End the pools; what still runs in threads ends when it ends."""
        self.end()
        for processes in self._processes:
            processes.close()
        for threads in self._threads:
            threads.shutdown(wait=False, cancel_futures=True)


def _coroutine_function(handler: Handler) -> Call:
    function: Callable[..., Any] = handler.function
    return function if handler.signature.has_context else lambda payload, ctx: function(payload)


async def _limited(handler: Handler, part: Part, ctx: Context | None, work: Awaitable[Any]) -> Any:
    """Await what can be cancelled, for as long as the handler may take."""
    with _watched(handler, part, ctx):
        try:
            async with asyncio.timeout(handler.timeout_s) as limit:
                return await work
        except TimeoutError:
            if not limit.expired():
                raise
            if ctx is not None:
                ctx.is_cancelled = True
            raise _too_long(handler) from None


@contextmanager
def _watched(handler: Handler, part: Part, ctx: Context | None) -> Iterator[None]:
    """Tell a part's health where a call goes on after its timeout."""
    timeout_s = handler.timeout_s
    if timeout_s is None:
        yield
        return
    loop, key = asyncio.get_running_loop(), object()
    where = f"{ctx.at} " if ctx is not None else ""
    reason = f"{where}goes on after its timeout of {timeout_s:g} s"
    stall = Stall(loop.time() + timeout_s + STALL_TIMEOUT_S, reason)
    timer = loop.call_later(timeout_s, part.stalled, key, stall)
    try:
        yield
    finally:
        timer.cancel()
        part.moved(key)


def _too_long(handler: Handler) -> TimeoutError:
    return TimeoutError(f"{handler.name} took longer than {handler.timeout_s:g} s")
