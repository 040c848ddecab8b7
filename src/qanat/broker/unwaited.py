"""Work whose outcome nobody waits for any more: it goes on to its end, or is given up."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

from qanat.model.errors import QanatError
from qanat.telemetry.events import event as tell

Result = TypeVar("Result")


async def to_the_end(work: asyncio.Task[Result]) -> Result:
    """The outcome of a task, which goes on where the caller is cancelled; a fault is then an event, a bug stays one."""
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        work.add_done_callback(_note_outcome)
        raise


def abandon(*works: asyncio.Future[Any], expected: tuple[type[Exception], ...] = (QanatError,)) -> None:
    """Cancel work that nobody needs any more. It may still fail instead, which counts only where it is a bug."""

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
        tell("change failed after its client had gone", level="warning", reason=str(fault))
    else:
        context = {"message": "work without a client failed", "exception": fault, "task": work}
        work.get_loop().call_exception_handler(context)
