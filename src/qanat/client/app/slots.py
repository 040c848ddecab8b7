"""Slots: the tasks in which handlers of a stream run, at most `concurrency` of them.

A slot takes one record after another and awaits its handler. A handler that does not suspend costs no task and no
turn of the event loop; one that does keeps its slot, and another slot goes on with the next record.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from qanat.client.app.lanes import Lanes, Work
from qanat.client.app.own_context import in_own_context
from qanat.client.app.ports import Raw

_TURN = 100
"""Records after which a slot lets others run, where its handler never suspends."""


class Slots:
    """The slots of one handler."""

    def __init__(
        self, lanes: Lanes[Raw], concurrency: int, run: Callable[[Work[Raw]], Coroutine[Any, Any, None]]
    ) -> None:
        self._lanes = lanes
        self._concurrency = concurrency
        self._run = run
        self._tasks: list[asyncio.Task[None]] = []
        self._idle: list[asyncio.Future[None]] = []
        self.running: dict[Work[Raw], asyncio.Task[None]] = {}
        """Which task handles which record."""
        self._is_closing = False
        self.failure: BaseException | None = None
        """What ended a slot: a bug, or a record that is given up without a dead letter."""
        self.on_failure: Callable[[], None] = lambda: None

    def wake(self) -> None:
        """Let slots run, as many as there are records."""
        wanted = self._lanes.startable
        while wanted > 0 and self._idle:
            waiter = self._idle.pop()
            if not waiter.done():
                waiter.set_result(None)
                wanted -= 1
        while wanted > 0 and len(self._tasks) < self._concurrency:
            self._tasks.append(asyncio.create_task(self._slot(), name=f"slot {len(self._tasks)}"))
            wanted -= 1

    async def _slot(self) -> None:
        try:
            await self._serve()
        except asyncio.CancelledError:
            raise
        except BaseException as fault:  # noqa: BLE001 - reported by the worker, which stops
            self.fail(fault)

    def fail(self, fault: BaseException | None) -> None:
        """Something ended that must not: the worker stops."""
        self.failure = self.failure or fault
        self.on_failure()

    async def _serve(self) -> None:
        take, run, running = self._lanes.take, self._run, self.running
        task = asyncio.current_task()
        assert task is not None
        turns = 0
        while not self._is_closing:
            work = take()
            if work is None:
                waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._idle.append(waiter)
                await waiter
                continue
            running[work] = task
            try:
                await in_own_context(run(work))
            finally:
                del running[work]
            turns += 1
            if turns >= _TURN:
                turns = 0
                await asyncio.sleep(0)

    def cancel_revoked(self) -> int:
        """Cancel handlers whose partitions are revoked; their slots go on with other records."""
        revoked = [task for work, task in self.running.items() if work.is_revoked]
        for task in revoked:
            task.cancel()
        return len(revoked)

    async def close(self) -> None:
        """Cancel all slots and wait for them."""
        self._is_closing = True  # One whose record is revoked takes the cancellation as that record's.
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task
