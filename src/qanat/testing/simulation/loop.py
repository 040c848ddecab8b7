"""A seeded event loop: its clock jumps to whatever comes next, and what runs belongs to a machine that can be stopped.

Nothing here waits. When nothing is ready, time goes on to the next timer; when there is none, everybody
waits for everybody, which is an error. What an executor would do on a thread is done in line, after a delay drawn from
the seed and in the order in which it was given to that executor.

Every callback runs in a context that says which machine it belongs to (`OWNER`). A machine that is paused keeps its
callbacks until it goes on; those of one that was killed are dropped, so that not even its clean-up code runs.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, ContextVar
from heapq import heappop, heappush
from random import Random
from typing import Any, TypeVar, TypeVarTuple

from qanat.log.runtime.fsync_thread import Flusher

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")

_TASKS_KEPT = 1000
"""Tasks between two looks for those that are done."""


class Owner:
    """Whose callbacks these are."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_paused = False
        self.is_dead = False

    def __repr__(self) -> str:
        state = " dead" if self.is_dead else " paused" if self.is_paused else ""
        return f"<Owner {self.name}{state}>"


NOBODY = Owner("nobody")
OWNER: ContextVar[Owner] = ContextVar("OWNER", default=NOBODY)


class DeadlockError(Exception):
    """Everybody waits, and no timer will end that."""


class OwnedTask(asyncio.Task[Any]):
    """A task that says whose it is."""

    owner: Owner


class SimLoop(asyncio.BaseEventLoop):
    """One seed, one history."""

    def __init__(self, seed: int | str, work_s: float = 0.0005) -> None:
        super().__init__()
        self._work_s = work_s
        """Mean time that work on a thread takes."""
        self.random = Random(f"loop {seed}")
        self._now = 0.0
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._timers_begun = 0
        self._busy_until: dict[int, float] = {}
        self._kept: dict[Owner, deque[asyncio.Handle]] = {}
        self.steps = 0
        """Turns of the loop so far."""
        self.set_task_factory(_kept_task)
        self.begun: list[OwnedTask] = []
        """Tasks that are not over, or failed without anybody having looked. Of a machine that was killed nothing may be
        collected while the run goes on: that would run its clean-up code."""
        self.begun_max = _TASKS_KEPT
        self.network: Any = None
        """Whatever answers `create_connection` and `create_server`."""

    def time(self) -> float:
        return self._now

    # What the base class asks for

    def _process_events(self, event_list: object) -> None: ...

    def _write_to_self(self) -> None: ...

    def call_at(
        self,
        when: float,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        self._timers_begun += 1
        heappush(self._timers, (when, self._timers_begun, timer))
        return timer

    def call_soon(
        self, callback: Callable[[*Arguments], object], *args: *Arguments, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)  # type: ignore[attr-defined]
        return handle

    def get_debug(self) -> bool:
        return False

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It is passed over when its time comes."""

    def _run_once(self) -> None:
        """Everything that is ready; when nothing is, whatever comes next."""
        self.steps += 1
        ready: deque[asyncio.Handle] = self._ready  # type: ignore[attr-defined]
        timers = self._timers
        if not ready:
            self._jump()
        now = self._now
        while timers and timers[0][0] <= now:
            ready.append(heappop(timers)[2])
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle._cancelled:
                continue
            context = handle._context  # type: ignore[attr-defined]
            owner = context.get(OWNER, NOBODY)
            if owner.is_paused or owner.is_dead:
                if not owner.is_dead:
                    self._kept.setdefault(owner, deque()).append(handle)
                continue
            try:
                context.run(handle._callback, *handle._args)  # type: ignore[attr-defined]
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as fault:  # noqa: BLE001 - as a handle does it
                self.call_exception_handler({"message": "a callback failed", "exception": fault, "handle": handle})

    def _jump(self) -> None:
        """Let the time go by until somebody has something to do."""
        timers = self._timers
        while timers and (timers[0][2]._cancelled or _owner(timers[0][2]).is_dead):
            heappop(timers)
        if timers:
            self._now = max(timers[0][0], self._now)
        elif not self._stopping:  # type: ignore[attr-defined]
            raise DeadlockError("nobody can go on: everything waits, and there is no timer")

    # Machines

    def pause(self, owner: Owner) -> None:
        """Let nothing of a machine run until `resume`; its clock goes on."""
        owner.is_paused = True

    def resume(self, owner: Owner) -> None:
        owner.is_paused = False
        self._ready.extend(self._kept.pop(owner, ()))  # type: ignore[attr-defined]

    def kill(self, owner: Owner) -> None:
        """Nothing of a machine ever runs again."""
        self.report_failed(owner)
        owner.is_dead = True
        self._kept.pop(owner, None)

    def report_failed(self, owner: Owner) -> None:
        """Tell the exception handler of a machine's tasks that failed without anybody having looked at that."""
        for task in self.begun:
            if task.owner is owner and not owner.is_dead and _is_failed(task):
                context = {"message": "Task exception was never retrieved", "exception": task.exception(), "task": task}
                self.call_exception_handler(context)

    def bury(self) -> None:
        """End every task that is left, after the run: what its clean-up code would like to do is of no interest."""
        hook, sys.unraisablehook = sys.unraisablehook, lambda _: None
        try:
            for task in self.begun:
                if not task.done():
                    task._log_destroy_pending = False  # type: ignore[attr-defined]
                    with suppress(BaseException):
                        task.get_coro().close()
            self.begun.clear()
            self._ready.clear()  # type: ignore[attr-defined]
            self._timers.clear()
            gc.collect()
            self.close()
        finally:
            sys.unraisablehook = hook

    # What product code asks for

    def run_in_executor(
        self, executor: object, func: Callable[[*Arguments], Result], *args: *Arguments
    ) -> asyncio.Future[Result]:
        outcome: asyncio.Future[Result] = self.create_future()

        def work() -> None:
            if outcome.cancelled():
                return
            try:
                outcome.set_result(func(*args))
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as fault:  # noqa: BLE001 - told to whoever waits, as a thread would
                outcome.set_exception(fault)

        self.call_at(self.thread_time(id(executor)), work)
        return outcome

    def thread_time(self, thread: int) -> float:
        """When a thread that may be busy will have done one more piece of work."""
        begin = max(self._now, self._busy_until.get(thread, 0.0))
        end = self._busy_until[thread] = begin + self.random.expovariate(1 / self._work_s)
        return end

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:
        return await self.network.connect(protocol_factory, host, port)

    async def create_server(self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:
        return self.network.listen(protocol_factory, host, port)

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - not ours
        """There is none."""


def _kept_task(
    loop: asyncio.AbstractEventLoop, work: Any, *, context: Context | None = None, **options: Any
) -> asyncio.Task[Any]:
    assert isinstance(loop, SimLoop)
    task = OwnedTask(work, loop=loop, context=context, **options)
    task.owner = OWNER.get() if context is None else context.get(OWNER, NOBODY)
    loop.begun.append(task)
    if len(loop.begun) > loop.begun_max:
        loop.begun = [one for one in loop.begun if not one.done() or _is_failed(one)]
        loop.begun_max = len(loop.begun) + _TASKS_KEPT
    return task


def _is_failed(task: OwnedTask) -> bool:
    """Whether it ended with an exception that nobody has looked at."""
    return task.done() and bool(task._log_traceback)


def _owner(handle: asyncio.Handle) -> Owner:
    return handle._context.get(OWNER, NOBODY)  # type: ignore[attr-defined,no-any-return]


class SimFlusher(Flusher):
    """The thread that waits for fsync, without a thread."""

    def run(
        self,
        function: Callable[[Any], Any],
        argument: object,
        then: Callable[[Any, BaseException | None], None],
    ) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimLoop)

        def work() -> None:
            try:
                result = function(argument)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as fault:  # noqa: BLE001 - as above
                then(None, fault)
            else:
                then(result, None)

        loop.call_at(loop.thread_time(id(self)), work)

    def close(self) -> None: ...
