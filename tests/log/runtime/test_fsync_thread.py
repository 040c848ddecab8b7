"""The fsync thread: work is done in order, and its callback gets the result."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from qanat.log.runtime.fsync_thread import QUICK_RUNS, QUICK_S, RECENT_S, FsyncThread


def run(flusher: FsyncThread, function: Callable[[Any], Any], argument: object) -> asyncio.Future[Any]:
    """A future of what came of it."""
    outcome: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def then(result: Any, fault: BaseException | None) -> None:
        if not outcome.done():
            outcome.set_result(result) if fault is None else outcome.set_exception(fault)

    flusher.run(function, argument, then)
    return outcome


def with_flusher(
    main: Callable[[FsyncThread], Coroutine[None, None, None]], clock_s: Callable[[], float] | None = None
) -> None:
    async def serve() -> None:
        flusher = FsyncThread(clock_s)
        try:
            await main(flusher)
        finally:
            flusher.close()

    asyncio.run(serve())


def test_work_is_done_in_order_on_one_other_thread() -> None:
    async def main(flusher: FsyncThread) -> None:
        seen: list[tuple[int, str]] = []

        def note(number: int) -> int:
            seen.append((number, threading.current_thread().name))
            return number * 2

        results = await asyncio.gather(*(run(flusher, note, number) for number in range(20)))

        assert results == [number * 2 for number in range(20)]
        assert seen == [(number, "log-flush") for number in range(20)]

    with_flusher(main)


def test_what_goes_wrong_reaches_whoever_waits_and_nobody_else() -> None:
    async def main(flusher: FsyncThread) -> None:
        def fail(words: str) -> None:
            raise OSError(words)

        with pytest.raises(OSError, match="the disk is gone"):
            await run(flusher, fail, "the disk is gone")
        assert await run(flusher, str, 5) == "5"

    with_flusher(main)


def test_close_returns_when_everything_given_is_done() -> None:
    async def main(flusher: FsyncThread) -> None:
        done: list[int] = []
        waiting = [run(flusher, done.append, number) for number in range(100)]

        flusher.close()

        assert done == list(range(100))
        await asyncio.gather(*waiting)

    with_flusher(main)


def test_whoever_gives_up_waiting_does_not_disturb_the_thread() -> None:
    async def main(flusher: FsyncThread) -> None:
        detach = threading.Event()
        waiting = run(flusher, detach.wait, 60.0)
        waiting.cancel()
        detach.set()

        assert await run(flusher, str, 5) == "5"

    with_flusher(main)


def test_an_idle_thread_keeps_nothing_of_what_it_did() -> None:
    class Thing:
        pass

    async def main(flusher: FsyncThread) -> None:
        thing = Thing()
        watched = weakref.ref(thing)
        await run(flusher, id, thing)
        del thing

        async with asyncio.timeout(60):
            while watched() is not None:
                gc.collect()
                await asyncio.sleep(0.001)

    with_flusher(main)


class Clock:
    """Stands still until the test moves it."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def advance(self, by_s: float) -> None:
        self.now_s += by_s


def test_a_disk_that_was_quick_a_hundred_times_is_quick_until_it_is_not() -> None:
    clock = Clock()

    async def main(flusher: FsyncThread) -> None:
        for _ in range(QUICK_RUNS - 1):
            await run(flusher, clock.advance, QUICK_S / 2)
        found = [flusher.is_quick]
        await run(flusher, clock.advance, QUICK_S / 2)
        found.append(flusher.is_quick)
        clock.advance(RECENT_S * 2)
        found.append(flusher.is_quick)
        await run(flusher, clock.advance, QUICK_S / 2)
        found.append(flusher.is_quick)
        await run(flusher, clock.advance, QUICK_S * 2)
        found.append(flusher.is_quick)
        assert found == [False, True, False, True, False], "not yet, now, too long ago, again, slow"

    with_flusher(main, clock)


def test_what_is_run_here_is_done_on_this_thread_at_once_and_counts_too() -> None:
    clock = Clock()

    async def main(flusher: FsyncThread) -> None:
        outcomes: list[tuple[object, BaseException | None]] = []

        def then(result: object, fault: BaseException | None) -> None:
            outcomes.append((result, fault))

        def fail(_: object) -> None:
            raise OSError("the disk is gone")

        flusher.run_here(lambda _: threading.current_thread().name, None, then)
        flusher.run_here(fail, None, then)

        assert outcomes[0] == (threading.current_thread().name, None)
        assert outcomes[1][0] is None
        assert str(outcomes[1][1]) == "the disk is gone"

        for _ in range(QUICK_RUNS):
            flusher.run_here(clock.advance, QUICK_S / 2, then)
        found = [flusher.is_quick]
        flusher.run_here(clock.advance, QUICK_S * 2, then)
        found.append(flusher.is_quick)
        assert found == [True, False]

    with_flusher(main, clock)


def test_without_a_clock_no_disk_is_quick() -> None:
    async def main(flusher: FsyncThread) -> None:
        for _ in range(QUICK_RUNS + 1):
            await run(flusher, str, 1)
        assert not flusher.is_quick

    with_flusher(main)
