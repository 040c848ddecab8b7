"""A seeded event loop: its clock jumps to the next timer, and its callbacks belong to machines that can stop.

Nothing here waits. When nothing is ready, time jumps to the next timer; when there is none, all tasks
wait for each other, which is an error. Work for an executor runs in line, after a delay drawn from
the seed and in the order in which that executor got it.

Every callback runs in a context that names its machine (`OWNER`). A paused machine keeps its
callbacks until it resumes; those of a killed one are dropped, so that not even its clean-up code runs.
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

from qanat.log.runtime.fsync_thread import FsyncThread

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")

_TASKS_KEPT = 1000
"""New tasks between two removals of finished ones."""


class Owner:
    """A machine, the owner of callbacks."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_paused = False
        self.is_dead = False

    def __repr__(self) -> str:
        state = " dead" if self.is_dead else " paused" if self.is_paused else ""
        return f"<Owner {self.name}{state}>"


NO_OWNER = Owner("no owner")
OWNER: ContextVar[Owner] = ContextVar("OWNER", default=NO_OWNER)


class DeadlockError(Exception):
    """All tasks wait, and no timer will end that."""


class OwnedTask(asyncio.Task[Any]):
    """A task that knows its owner."""

    owner: Owner


class SimLoop(asyncio.BaseEventLoop):
    """One seed, one history."""

    def __init__(self, seed: int | str, work_s: float = 0.0005) -> None:
        super().__init__()
        self._work_s = work_s
        """Mean duration of work on a thread."""
        self.random = Random(f"loop {seed}")
        self._now = 0.0
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._timers_begun = 0
        self._busy_until: dict[int, float] = {}
        self._kept: dict[Owner, deque[asyncio.Handle]] = {}
        self.steps = 0
        """Iterations of the loop so far."""
        self.set_task_factory(_kept_task)
        self.begun: list[OwnedTask] = []
        """Tasks that are not over, or whose exception was not retrieved. Nothing of a killed machine may be
        collected during the run: that would run its clean-up code."""
        self.begun_max = _TASKS_KEPT
        self.network: Any = None
        """Implements `create_connection` and `create_server`."""

    def time(self) -> float:
        return self._now

    # Required by the base class

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
        """It is skipped when its time comes."""

    def _run_once(self) -> None:
        """Run everything that is ready; when nothing is, jump to the next timer."""
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
            owner = context.get(OWNER, NO_OWNER)
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
        """Advance the time to the next timer."""
        timers = self._timers
        while timers and (timers[0][2]._cancelled or _owner(timers[0][2]).is_dead):
            heappop(timers)
        if timers:
            self._now = max(timers[0][0], self._now)
        elif not self._stopping:  # type: ignore[attr-defined]
            raise DeadlockError("no task can continue: all of them wait, and there is no timer")

    # Machines

    def pause(self, owner: Owner) -> None:
        """Run nothing of a machine until `resume`; its clock continues."""
        owner.is_paused = True

    def resume(self, owner: Owner) -> None:
        owner.is_paused = False
        self._ready.extend(self._kept.pop(owner, ()))  # type: ignore[attr-defined]

    def kill(self, owner: Owner) -> None:
        """Run nothing of a machine any more."""
        self.report_failed(owner)
        owner.is_dead = True
        self._kept.pop(owner, None)

    def report_failed(self, owner: Owner) -> None:
        """Pass the exceptions of a machine's tasks that were not retrieved to the exception handler."""
        for task in self.begun:
            if task.owner is owner and not owner.is_dead and _is_failed(task):
                context = {"message": "Task exception was never retrieved", "exception": task.exception(), "task": task}
                self.call_exception_handler(context)

    def abandon(self) -> None:
        """End every remaining task, after the run, without its clean-up code."""
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

    # Used by product code

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
            except BaseException as fault:  # noqa: BLE001 - passed to the waiter, as a thread would
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

    def remove_reader(self, fd: object) -> bool:
        """There are no sockets: `SimServer` accepts until it is closed."""
        return False

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - not ours
        """There is none."""


def _kept_task(
    loop: asyncio.AbstractEventLoop, work: Any, *, context: Context | None = None, **options: Any
) -> asyncio.Task[Any]:
    assert isinstance(loop, SimLoop)
    task = OwnedTask(work, loop=loop, context=context, **options)
    task.owner = OWNER.get() if context is None else context.get(OWNER, NO_OWNER)
    loop.begun.append(task)
    if len(loop.begun) > loop.begun_max:
        loop.begun = [one for one in loop.begun if not one.done() or _is_failed(one)]
        loop.begun_max = len(loop.begun) + _TASKS_KEPT
    return task


def _is_failed(task: OwnedTask) -> bool:
    """Whether it ended with an exception that was not retrieved."""
    return task.done() and bool(task._log_traceback)


def _owner(handle: asyncio.Handle) -> Owner:
    return handle._context.get(OWNER, NO_OWNER)  # type: ignore[attr-defined,no-any-return]


class SimFsyncThread(FsyncThread):
    """The fsync thread, without a thread."""

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
