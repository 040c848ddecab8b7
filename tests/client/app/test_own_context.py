"""Context variables of a handler: they stay with its record, in coroutines and in threads."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar

import pytest
from tests.client.app.memory_clients import MemoryClients, raws
from tests.client.app.test_stream_worker import Running, simulated

from qanat.client.app.app import App
from qanat.client.app.own_context import in_own_context
from qanat.client.app.pools import Pools

USER: ContextVar[str] = ContextVar("USER", default="nobody")


@pytest.mark.parametrize("pause_s", [None, 1.0])
def test_what_a_handler_sets_is_not_seen_by_the_next_record(pause_s: float | None) -> None:
    app = App("x:1")
    seen: list[tuple[str, str]] = []

    @app.stream("orders", group="billing", concurrency=1)
    async def bill(order: bytes) -> None:
        before = USER.get()
        USER.set("alice")
        if pause_s is not None:
            await asyncio.sleep(pause_s)
        seen.append((before, USER.get()))

    async def scene() -> None:
        async with Running(app, MemoryClients(*raws(5))):
            assert seen == [("nobody", "alice")] * 5

    simulated(scene())


def test_threads_handle_with_the_context_of_the_caller_and_keep_nothing_of_it() -> None:
    app = App("x:1")
    seen: list[tuple[str, bool]] = []

    @app.stream("orders", group="billing", concurrency=1)
    def bill(order: bytes) -> None:
        seen.append((USER.get(), threading.current_thread() is threading.main_thread()))
        USER.set("alice")

    pools = Pools()

    async def scene() -> None:
        call = pools.call_of(app.handlers[-1])
        await call(b"", None)
        await call(b"", None)
        USER.set("bob")
        await call(b"", None)

    try:
        asyncio.run(scene())
    finally:
        pools.close()
    assert seen == [("nobody", False), ("nobody", False), ("bob", False)]


def test_a_cancellation_reaches_the_work_and_is_raised() -> None:
    ended: list[str] = []

    async def work() -> None:
        USER.set("alice")
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(USER.get())

    async def scene() -> None:
        async def slot() -> None:
            await in_own_context(work())

        task = asyncio.create_task(slot())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert USER.get() == "nobody"

    asyncio.run(scene())
    assert ended == ["alice"]


def test_a_fault_is_raised_and_a_cancellation_may_be_withdrawn() -> None:
    async def fails() -> None:
        await asyncio.sleep(0)
        raise LookupError("no such order")

    async def withdraws() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)

    async def slot() -> str:
        await in_own_context(withdraws())
        return "went on"

    async def scene() -> None:
        with pytest.raises(LookupError, match="no such order"):
            await in_own_context(fails())
        task = asyncio.create_task(slot())
        await asyncio.sleep(0)
        task.cancel()
        assert await task == "went on"

    asyncio.run(scene())
