"""Unhandled exceptions in a simulated cluster: each is a bug, reported with its traceback.

They come from the loop (a failed callback, a task or future whose exception was never retrieved), from connections that
the product closed because of a bug of its own, and from log events with a traceback.

Rule 1: only exceptions of a live machine count. A killed process leaves tasks whose results it would have retrieved.
Rule 2: a failed task that its owner still references counts when its machine ends, or the run does (`SimLoop.kill`).
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Callable
from typing import Any

from qanat.testing.simulation.loop import NO_OWNER, OWNER, OwnedTask, Owner

_LOGGER = logging.getLogger("qanat")


class UnhandledExceptions(logging.Handler):
    """`with UnhandledExceptions(note) as handler: loop.set_exception_handler(handler.on_loop)`."""

    def __init__(self, note: Callable[[list[str]], None]) -> None:
        super().__init__(logging.WARNING)
        self._note = note

    def __enter__(self) -> UnhandledExceptions:
        _LOGGER.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        _LOGGER.removeHandler(self)

    def on_loop(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """The exception handler of a loop."""
        owner = _owner_of(context)
        if owner is not None and not owner.is_dead:
            self._found(context["message"], context.get("exception"), owner)

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and not OWNER.get().is_dead:
            self._found(record.getMessage(), record.exc_info[1], OWNER.get())

    def _found(self, message: str, fault: BaseException | None, owner: Owner) -> None:
        trace = "" if fault is None else "".join(traceback.format_exception(fault))
        self._note([f"unhandled exception on {owner.name}: {fault!r} ({message})\n{trace}".rstrip()])


def _owner_of(context: dict[str, Any]) -> Owner | None:
    """The machine whose exception it is. A future does not say: it belongs to the machine that drops it, and to none
    where it is dropped from outside, together with a machine that has ended."""
    waited_for, handle = context.get("task") or context.get("future"), context.get("handle")
    if isinstance(waited_for, OwnedTask):
        return waited_for.owner
    if handle is not None:
        owner: Owner = handle._context.get(OWNER, NO_OWNER)
        return owner
    return None if waited_for is not None and OWNER.get() is NO_OWNER else OWNER.get()
