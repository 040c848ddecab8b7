"""Processes of handlers that hold the interpreter, each with one record at a time.

Rule 1: a process that dies takes its own record along and no other; the next record gets a new process.
Rule 2: a process is killed where its call takes too long or is cancelled: nothing else stops it.
Rule 3: it ends with its parent, even if that is killed. Signals are the parent's business.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Executor
from multiprocessing import connection, get_context, parent_process
from multiprocessing.connection import Connection
from typing import Any

_PR_SET_PDEATHSIG = 1
_READY = b"ready"
_JOIN_S = 1.0
"""How long a killed process may take to end."""


class HandlerProcessError(Exception):
    """The process of a handler has ended while it handled a record."""


class HandlerProcess:
    """One process. It is started on the event loop's thread, with which the kernel ends it on Linux."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        # A fork would copy the locks of the client's threads, held or not.
        context = get_context("spawn")
        self._name = name
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, os.getpid(), function), name=f"qanat {name}")
        try:
            self._process.start()
        finally:
            theirs.close()

    # In a thread

    def begin(self) -> None:
        """Wait until it has imported the handler."""
        self._receive()

    def handle(self, *arguments: object) -> Any:
        """What the handler returns; raises what it raises."""
        request = pickle.dumps(arguments)
        try:
            self._connection.send_bytes(request)
        except OSError:
            raise self._ended() from None
        is_result, outcome = pickle.loads(self._receive())
        if is_result:
            return outcome
        raise outcome

    def _receive(self) -> bytes:
        try:
            return self._connection.recv_bytes()
        except (EOFError, OSError):
            raise self._ended() from None

    def _ended(self) -> HandlerProcessError:
        self._process.join(_JOIN_S)
        code = self._process.exitcode
        how = f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with code {code}"
        return HandlerProcessError(f"the process {self._process.pid} of {self._name} {how}")

    # On the event loop

    @property
    def is_alive(self) -> bool:
        return self._process.is_alive()

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        self._process.kill()
        self._process.join(_JOIN_S)


class HandlerProcesses:
    """The processes of one handler: as many as have been busy at once."""

    def __init__(self, name: str, function: Callable[..., Any], threads: Executor) -> None:
        """`threads` wait for the processes: as many as there may be."""
        self._name, self._function, self._threads = name, function, threads
        self._all: set[HandlerProcess] = set()
        self._idle: list[HandlerProcess] = []

    async def ready(self) -> HandlerProcess:
        """A process that has imported its handler and has nothing to do; give it to `handle`."""
        while self._idle:
            process = self._idle.pop()
            if process.is_alive:
                return process
            self._drop(process)
        process = HandlerProcess(self._name, self._function)
        self._all.add(process)
        await self._wait(process, process.begin)
        return process

    async def handle(self, process: HandlerProcess, *arguments: object) -> Any:
        """Handle one record; raises what its handler raises, or `HandlerProcessError`."""
        try:
            return await self._wait(process, process.handle, *arguments)
        finally:
            if process in self._all:
                self._idle.append(process)

    async def _wait(self, process: HandlerProcess, work: Callable[..., Any], *arguments: object) -> Any:
        """Wait for a process in a thread; kill it where the wait is cancelled."""
        future = asyncio.get_running_loop().run_in_executor(self._threads, work, *arguments)
        try:
            return await asyncio.shield(future)
        except HandlerProcessError:
            self._drop(process)
            raise
        except asyncio.CancelledError:
            future.add_done_callback(lambda one: one.cancelled() or one.exception())
            self._drop(process)
            raise

    def _drop(self, process: HandlerProcess) -> None:
        self._all.discard(process)
        process.kill()

    def close(self) -> None:
        """Kill all: the grace is over, or they have nothing to do."""
        for process in self._all:
            process.close()
        self._all.clear()
        self._idle.clear()


# In the process


def _serve(ours: Connection, parent: int, function: Callable[..., Any]) -> None:
    """Handle one record after another, until the parent ends."""
    for one in (signal.SIGINT, signal.SIGTERM):  # Ctrl-C and systemd signal every process of a service.
        signal.signal(one, signal.SIG_IGN)
    _end_with(parent)
    try:
        ours.send_bytes(_READY)
        while True:
            ours.send_bytes(_answer(function, ours.recv_bytes()))
    except (EOFError, OSError):
        return


def _answer(function: Callable[..., Any], request: bytes) -> bytes:
    try:
        return pickle.dumps((True, function(*pickle.loads(request))))
    except Exception as fault:  # noqa: BLE001 - user code, raised in the parent
        return _refusal(fault)


def _refusal(fault: Exception) -> bytes:
    """An exception with its traceback; one that cannot be carried over is described."""
    text = "".join(traceback.format_exception(fault))
    try:
        fault.add_note(f"in the handler's process:\n{text}")
        found = pickle.dumps((False, fault))
        pickle.loads(found)
    except Exception:  # noqa: BLE001 - an exception of users with arguments of its own
        return pickle.dumps((False, RuntimeError(f"{type(fault).__name__}: {fault}")))
    return found


def _end_with(parent: int) -> None:
    """End when the parent does, at work too."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
        if os.getppid() != parent:
            os._exit(1)  # It ended before.
    else:
        own = parent_process()
        assert own is not None, "this is a child"
        threading.Thread(target=_end_after, args=(own.sentinel,), daemon=True).start()


def _end_after(sentinel: int) -> None:
    connection.wait([sentinel])
    os._exit(1)
