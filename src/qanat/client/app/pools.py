"""Where handlers run that are no coroutines: a pool of threads, or of processes for those that hold the GIL."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any

from qanat.client.app.context import Context
from qanat.client.app.handlers import Handler

Call = Callable[[Any, Context | None], Awaitable[Any]]
"""A handler as workers call it."""


class Pools:
    """The pools of one worker, each begun on first use. A handler has its own, so that none waits for another's."""

    def __init__(self) -> None:
        self._pools: list[Executor] = []

    def call_of(self, handler: Handler) -> Call:
        """The handler as a coroutine function of payload and context."""
        inner = self._plain(handler)
        timeout_s = handler.timeout_s
        if timeout_s is None:
            return inner

        async def limited(payload: Any, ctx: Context | None) -> Any:
            try:
                async with asyncio.timeout(timeout_s) as limit:
                    return await inner(payload, ctx)
            except TimeoutError:
                if not limit.expired():
                    raise
                if ctx is not None:
                    ctx.is_cancelled = True
                raise TimeoutError(f"{handler.name} took longer than {timeout_s:g} s") from None

        return limited

    def _plain(self, handler: Handler) -> Call:
        function: Callable[..., Any] = handler.function
        if handler.signature.is_async:
            if handler.signature.has_context:
                return function
            return lambda payload, ctx: function(payload)
        pool = self._pool(handler)
        has_context, is_thread = handler.signature.has_context, handler.run_in != "process"

        def pooled(payload: Any, ctx: Context | None) -> Awaitable[Any]:
            call = partial(function, payload, ctx) if has_context else partial(function, payload)
            if is_thread:
                # A thread handles many records: context variables come from the caller, and stay with the record.
                call = partial(copy_context().run, call)
            return asyncio.get_running_loop().run_in_executor(pool, call)

        return pooled

    def _pool(self, handler: Handler) -> Executor:
        pool: Executor
        if handler.run_in == "process":
            from multiprocessing import get_context

            # A fork would copy the locks of the client's threads, held or not.
            pool = ProcessPoolExecutor(handler.concurrency, mp_context=get_context("spawn"))
        else:
            pool = ThreadPoolExecutor(handler.concurrency, f"qanat-{handler.name}")
        self._pools.append(pool)
        return pool

    def close(self) -> None:
        """End the pools; what still runs in threads ends when it ends."""
        for pool in self._pools:
            pool.shutdown(wait=False, cancel_futures=True)
