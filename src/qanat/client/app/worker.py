"""One running worker of an app: its consumers, its producer, its loops, and their end.

The stages of the end are decided in `shutdown.py`; here they are carried out: drain, commit, leave, within the grace.
"""

from __future__ import annotations

import asyncio
import inspect
import signal
import threading
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from random import Random
from typing import Any, Protocol

from qanat.client.app.batch_worker import BatchWorker
from qanat.client.app.clients import AppClients, LazySender
from qanat.client.app.handlers import BatchHandler, Handler, QueueHandler, StreamHandler
from qanat.client.app.health import Health, Part, health_of
from qanat.client.app.health_server import HealthServer
from qanat.client.app.metrics import HandlerCounters
from qanat.client.app.pools import Pools
from qanat.client.app.ports import Clients, DeclaredApp
from qanat.client.app.queue_worker import QueueWorker
from qanat.client.app.shutdown import Shutdown, Stage
from qanat.client.app.stream_worker import StreamWorker
from qanat.client.app.tracing import Tracing
from qanat.client.app.transactions import Transactions
from qanat.client.app.worker_tools import Tools
from qanat.client.io_loop import IoLoop
from qanat.telemetry.events import log_event
from qanat.telemetry.producer_metrics import ProducerMetrics

_CLOSE_S = 5.0
"""How long closing may take, after the grace."""


class HandlerWorker(Protocol):
    """What the three kinds of workers have in common."""

    part: Part

    async def start(self) -> None: ...
    async def run(self) -> None: ...
    def resume(self) -> None: ...
    def stop_polling(self) -> None: ...
    async def drain(self, until_s: float) -> None: ...
    async def close(self) -> None: ...
    def measure(self) -> HandlerCounters: ...


class AppWorker:
    """A worker of an app in this process, on this event loop."""

    def __init__(
        self,
        app: DeclaredApp,
        io: IoLoop | None = None,
        random: Random | None = None,
        clients: Clients | None = None,
        *,
        is_simulated: bool = False,
    ) -> None:
        """`io` is where the network runs, a thread by default; `clients` are others for tests of the worker.

        A simulated worker opens no port.
        """
        self._is_simulated = is_simulated
        self._app = app
        self._io = io
        self._clients = clients
        self._produced = ProducerMetrics()
        self._random = random or Random()
        self._shutdown = Shutdown(app.grace_s)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._signalled = asyncio.Event()
        self._workers: list[HandlerWorker] = []
        self._pools = Pools(is_simulated=is_simulated)
        self.is_started = False
        """Whether all consumers have begun."""

    # From other threads

    def stop(self) -> None:
        """The first call drains, a second one ends at once."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._on_signal)

    def resume(self, handler: str = "") -> None:
        """Go on where handlers have paused: all of them, or the one of that name."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._resume, handler)

    def health(self) -> Health:
        if self._loop is None:
            return Health(False, ("the worker has not started",))
        return health_of([worker.part for worker in self._workers], self._loop.time())

    def counters(self) -> list[HandlerCounters]:
        return [worker.measure() for worker in self._workers]

    @property
    def produced(self) -> ProducerMetrics:
        """What its producers have sent."""
        return self._produced

    # The run

    async def run(self, *, has_signals: bool = False) -> None:
        """Run until a stop; raises what ended a handler."""
        loop = self._loop = asyncio.get_running_loop()
        async with AsyncExitStack() as stack:
            if has_signals:
                stack.callback(self._watch_signals(loop))
            io = self._io
            if io is None:
                io = IoLoop.start("qanat-io")
                stack.callback(io.close)
            pools = self._pools
            stack.callback(pools.close)
            clients = self._clients or AppClients(self._app, io, produced=self._produced)
            sender = LazySender(clients)
            stack.push_async_callback(_in_time, sender.close)
            tools = Tools(clients, sender, pools, Tracing(), self._random, self._app.grace_s, self._app.error_handler)
            self._workers = [_worker(one, tools) for one in self._app.handlers]
            if self._app.health_port is not None and not self._is_simulated:
                await stack.enter_async_context(HealthServer(self._app, self._app.health_port))
            if self._app.lifespan is not None:
                await stack.enter_async_context(self._app.lifespan())
            for hook in self._app.start_hooks:
                await _call_hook(hook)
            try:
                await self._serve(loop)
            finally:
                await self._close()
                for hook in self._app.stop_hooks:
                    await _call_hook(hook)

    async def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        await asyncio.gather(*(worker.start() for worker in self._workers))
        self.is_started = True
        log_event("app started", handlers=[one.name for one in self._app.handlers])
        tasks = [asyncio.create_task(one.run(), name=one.part.name) for one in self._workers]
        signalled = asyncio.create_task(self._signalled.wait(), name="signals")
        try:
            await asyncio.wait([*tasks, signalled], return_when=asyncio.FIRST_COMPLETED)
            failure = _failure(tasks)
            if self._shutdown.decide(loop.time()) is Stage.RUNNING:
                self._on_signal()
            await self._drain(loop)
            failure = failure or _failure(tasks)
            if failure is not None:
                raise failure
        finally:
            self._pools.end()
            for task in (*tasks, signalled):
                task.cancel()
            await asyncio.gather(*tasks, signalled, return_exceptions=True)

    async def _drain(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let handlers finish and commit, until the grace ends or a second signal comes."""
        until_s = self._shutdown.deadline_s
        for worker in self._workers:
            worker.stop_polling()
        drains = asyncio.gather(*(worker.drain(until_s) for worker in self._workers), return_exceptions=True)
        while not drains.done() and self._shutdown.decide(loop.time()) is not Stage.STOPPING:
            self._signalled.clear()
            again = asyncio.create_task(self._signalled.wait(), name="second signal")
            waited: list[asyncio.Future[Any]] = [drains, again]
            await asyncio.wait(waited, timeout=until_s - loop.time(), return_when=asyncio.FIRST_COMPLETED)
            again.cancel()
        if not drains.done():
            log_event("app stops before all handlers are done", level="warning")
            drains.cancel()
        with suppress(asyncio.CancelledError):
            await drains

    async def _close(self) -> None:
        self._pools.end()
        await asyncio.gather(*(_in_time(worker.close) for worker in self._workers))

    # Signals

    def _on_signal(self) -> None:
        loop = asyncio.get_running_loop()
        stage = self._shutdown.signal(loop.time())
        log_event("app stops", stage=stage.value)
        self._signalled.set()

    def _resume(self, handler: str) -> None:
        for declared, worker in zip(self._app.handlers, self._workers, strict=True):
            if not handler or declared.name == handler:
                worker.resume()

    def _watch_signals(self, loop: asyncio.AbstractEventLoop) -> Callable[[], None]:
        # Who ignores Ctrl-C is stopped by somebody else: nohup, the supervisor of `qanat run`.
        is_ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        wanted = (signal.SIGTERM,) if is_ignored else (signal.SIGTERM, signal.SIGINT)
        if threading.current_thread() is not threading.main_thread():
            return lambda: None
        for one in wanted:
            loop.add_signal_handler(one, self._on_signal)
        loop.add_signal_handler(signal.SIGUSR1, self._resume, "")

        def restore() -> None:
            for one in (*wanted, signal.SIGUSR1):
                loop.remove_signal_handler(one)

        return restore


def _failure(tasks: list[asyncio.Task[None]]) -> BaseException | None:
    """The first exception of finished tasks."""
    for task in tasks:
        if task.done() and not task.cancelled() and task.exception() is not None:
            return task.exception()
    return None


def _worker(handler: Handler, tools: Tools) -> HandlerWorker:
    match handler:
        case StreamHandler():
            worker = StreamWorker(handler, tools)
            if handler.exactly_once:
                transactions = Transactions(worker, tools)
                worker.before_commit, worker.commit_now = transactions.resolve, transactions.commit
                worker.on_close = transactions.close
            return worker
        case QueueHandler():
            return QueueWorker(handler, tools)
        case BatchHandler():
            return BatchWorker(handler, tools)
        case _:
            raise AssertionError(f"no worker for {handler!r}")


async def _in_time(close: Callable[[], Awaitable[None]]) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(_CLOSE_S):
            await close()


async def _call_hook(hook: Callable[[], object]) -> None:
    result = hook()
    if inspect.isawaitable(result):
        await result
