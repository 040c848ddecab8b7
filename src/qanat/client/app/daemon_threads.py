"""Threads that nobody waits for when the program ends: a handler that blocks cannot keep its process alive.

Those of `concurrent.futures` are joined when the interpreter ends, however long that takes.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class HandlerThread(threading.Thread):
    """A thread of `DaemonThreads`, by which it is told apart."""


class DaemonThreads(ThreadPoolExecutor):
    """At most so many threads, each begun when it is needed. An event loop takes no executor of another class."""

    def __init__(self, count: int, name: str) -> None:
        super().__init__(count, name)
        self._count, self._name = count, name
        self._guard = threading.Lock()
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._begun = 0
        self._free = 0
        """Threads that wait, less the calls that wait."""
        self._is_over = False
        self._drops_calls = False
        """Whether calls that have not begun never will."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()

        def call() -> None:
            if self._drops_calls:
                future.cancel()
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = fn(*args, **kwargs)
            except BaseException as fault:  # noqa: BLE001 - raised where the future is awaited
                future.set_exception(fault)
            else:
                future.set_result(result)

        with self._guard:
            if self._is_over:
                raise RuntimeError("these threads have been ended")
            self._calls.put(call)
            self._free -= 1
            if self._free < 0 and self._begun < self._count:
                self._begun += 1
                self._free += 1
                HandlerThread(target=self._serve, name=f"{self._name}_{self._begun}", daemon=True).start()
        return future

    def _serve(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
            del call
            with self._guard:
                self._free += 1

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End threads when they have nothing to do; never waits."""
        with self._guard:
            self._drops_calls |= cancel_futures
            if not self._is_over:
                self._is_over = True
                for _ in range(self._begun):
                    self._calls.put(None)


def run_without_waiting(work: Coroutine[Any, Any, None]) -> None:
    """As `asyncio.run`, but at the end it waits for no thread that the work has left, of `asyncio.to_thread` too."""
    with asyncio.Runner() as runner:
        runner.get_loop().set_default_executor(DaemonThreads(min(32, (os.cpu_count() or 1) + 4), "asyncio"))
        runner.run(work)
