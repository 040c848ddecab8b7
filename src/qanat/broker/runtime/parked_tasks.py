"""Parked tasks: responses that wait, and other work under way. Closing the broker cancels them."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

from qanat.model.ordered_set import OrderedSet

Result = TypeVar("Result")


class TaskOwner(Protocol):
    """Runs work until it ends or the broker closes."""

    def park(self, work: Coroutine[Any, Any, Result], /) -> asyncio.Task[Result]: ...


class ParkedTasks:
    """All parked tasks of a broker."""

    def __init__(self) -> None:
        self._waiting: OrderedSet[asyncio.Future[Any]] = OrderedSet()

    def park(self, work: Coroutine[Any, Any, Result], /) -> asyncio.Task[Result]:
        """Run work as a task of its own."""
        task = asyncio.get_running_loop().create_task(work)
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)
        return task

    def add(self, waiting: asyncio.Future[Any]) -> None:
        """Cancel this future as well when the broker closes."""
        self._waiting.add(waiting)

    def discard(self, waiting: asyncio.Future[Any]) -> None:
        self._waiting.discard(waiting)

    async def cancel(self) -> None:
        """Cancel everything and return once it has ended."""
        parked = list(self._waiting)
        for waiting in parked:
            waiting.cancel()
        await asyncio.gather(*parked, return_exceptions=True)
