"""Detached work: a task that no caller awaits any more and that goes on to its end, or is abandoned."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

from qanat.model.errors import QanatError
from qanat.telemetry.events import log_event

Result = TypeVar("Result")


async def to_the_end(work: asyncio.Task[Result]) -> Result:
    """The outcome of a task that goes on where the caller is cancelled; then a fault becomes a log event, a bug stays a
    bug."""
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        work.add_done_callback(_note_outcome)
        raise


def abandon(*works: asyncio.Future[Any], expected: tuple[type[Exception], ...] = (QanatError,)) -> None:
    """Cancel work that is no longer needed. It may fail instead, which is reported only where it is a bug."""

    def look(work: asyncio.Future[Any]) -> None:
        if work.cancelled() or (fault := work.exception()) is None or isinstance(fault, expected):
            return
        context = {"message": "abandoned work failed", "exception": fault, "future": work}
        work.get_loop().call_exception_handler(context)

    for work in works:
        work.cancel()
        work.add_done_callback(look)


def _note_outcome(work: asyncio.Task[Result]) -> None:
    if work.cancelled() or (fault := work.exception()) is None:
        return
    if isinstance(fault, QanatError):
        log_event("change failed after its client had gone", level="warning", reason=str(fault))
    else:
        context = {"message": "work without a client failed", "exception": fault, "task": work}
        work.get_loop().call_exception_handler(context)
