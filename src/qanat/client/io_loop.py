"""Where a client's network traffic runs: a daemon thread with its own event loop, or the caller's loop.

The thread keeps heartbeats and sends going while the caller's loop is busy. On the caller's loop a test decides the
time. A client that lived before a fork is unusable in the child: its thread is not there, and its sockets are the
parent's.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from qanat.client.errors import ClosedError, ForkedError

T = TypeVar("T")
_JOIN_S = 5.0
"""How long the thread may take to end."""


class IoLoop:
    """An event loop for the network. Made by `start` or `here`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str, thread: threading.Thread | None = None) -> None:
        self.loop = loop
        self.name = name
        self._thread = thread
        self.is_here = thread is None
        """Whether it is the caller's own loop."""
        self.is_closed = False
        self._pid = os.getpid()
        self.is_usable = True
        """Whether `check` would raise nothing; cheaper to ask."""
        _loops.add(self)

    @staticmethod
    def start(name: str) -> IoLoop:
        """A daemon thread with its own event loop; uvloop's, where it is installed."""
        loop = _new_loop()
        thread = threading.Thread(target=_run, args=(loop,), name=name, daemon=True)
        thread.start()
        return IoLoop(loop, name, thread)

    @staticmethod
    def here() -> IoLoop:
        """The caller's running loop."""
        return IoLoop(asyncio.get_running_loop(), "the caller's loop")

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run it there, called from any thread but the loop's own."""
        try:
            self.check()
        except BaseException:
            work.close()
            raise
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it there and wait, called on the caller's loop; cancelling the call cancels the work."""
        if self.is_here:
            return await work
        return await asyncio.wrap_future(self.submit(work))

    def soon(self, callback: Callable[..., object], *arguments: object) -> None:
        """Call it there in the loop's next turn, called from any thread."""
        self.loop.call_soon_threadsafe(callback, *arguments)

    def check(self) -> None:
        """Raise `ClosedError` after the end, `ForkedError` in a child process."""
        if self.is_usable:
            return
        if self._pid != os.getpid():
            raise ForkedError(
                f"{self.name} was made in process {self._pid} and cannot be used in its fork {os.getpid()}: "
                "make a client after the fork (gunicorn: in post_fork; Celery: in worker_process_init)"
            )
        if self.is_closed:
            raise ClosedError(f"{self.name} is closed: make another one")

    def close(self) -> None:
        """End the thread; the caller's own loop stays. Called from another thread.

        Clients that are still open end with it. They leave no group: their partitions wait for the session timeout.
        """
        if not self.is_usable:
            return
        self.is_closed, self.is_usable = True, False
        if self._thread is not None:
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(_JOIN_S)


_loops: weakref.WeakSet[IoLoop] = weakref.WeakSet()


def _lose_all() -> None:
    """In the child of a fork: the threads are not there, and the sockets are the parent's."""
    for one in _loops:
        one.is_usable = False


os.register_at_fork(after_in_child=_lose_all)


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        try:
            left = asyncio.all_tasks(loop)
            for task in left:
                task.cancel()
            if left:
                loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())
            from qanat.connection.channel import abort_channels  # Imported by now, where there is a connection.

            loop.run_until_complete(abort_channels())
        finally:
            loop.close()
