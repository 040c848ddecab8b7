"""The callback of a sync future runs in the iteration in which it is settled."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any

import pytest

from qanat.log.runtime.sync_future import SyncFuture


async def test_a_listener_is_told_in_the_same_turn_after_those_who_keep_it() -> None:
    told: list[str] = []
    prompt: SyncFuture[int] = SyncFuture()
    prompt.add_done_callback(lambda _: told.append("callback"))
    prompt.sync_callback = lambda one: told.append(f"listener {one.result()}")
    prompt.on_settled(lambda _: told.append("one who kept it"))
    prompt.on_settled(lambda _: told.append("another"))

    prompt.settle(7)

    assert told == ["one who kept it", "another", "listener 7"]
    assert await prompt == 7
    await asyncio.sleep(0)
    assert told[3:] == ["callback"]


async def test_what_comes_after_the_first_counts_for_nothing() -> None:
    told: list[SyncFuture[int]] = []
    prompt: SyncFuture[int] = SyncFuture()
    prompt.sync_callback = told.append

    assert prompt.cancel()
    prompt.settle(7)
    prompt.settle_with_fault(ValueError("late"))

    assert told == [prompt]
    assert prompt.cancelled()
    assert not prompt.cancel()


async def test_a_fault_is_raised_for_whoever_waits() -> None:
    told: list[BaseException | None] = []
    prompt: SyncFuture[int] = SyncFuture()
    prompt.sync_callback = lambda one: told.append(one.exception())

    prompt.settle_with_fault(fault := ValueError("full"))

    assert told == [fault]
    with pytest.raises(ValueError, match="full"):
        await prompt


async def test_a_listener_that_fails_does_not_reach_whoever_settles() -> None:
    heard: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, told: heard.append(told))
    prompt: SyncFuture[int] = SyncFuture()

    def fail(_: SyncFuture[int]) -> None:
        raise ZeroDivisionError

    prompt.sync_callback = fail
    prompt.settle(7)

    assert [type(told["exception"]) for told in heard] == [ZeroDivisionError]
    assert prompt.result() == 7


async def test_whoever_holds_what_it_waits_for_leaves_nothing_to_collect() -> None:
    class Waiting:
        def __init__(self) -> None:
            self.prompt: SyncFuture[int] = SyncFuture()
            self.prompt.sync_callback = self.done

        def done(self, _: SyncFuture[int]) -> None: ...

    gc.disable()
    try:
        waiting = Waiting()
        left = weakref.ref(waiting)
        waiting.prompt.settle(7)
        del waiting
        assert left() is None
    finally:
        gc.enable()
