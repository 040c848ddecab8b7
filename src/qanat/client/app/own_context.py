"""A copy of the context variables for each record: what a handler sets is gone with its record.

A slot is one task, which handles many records; a task of its own for each would cost several times as much.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from contextvars import copy_context
from types import coroutine
from typing import Any


@coroutine
def in_own_context(work: Coroutine[Any, Any, None]) -> Generator[Any, Any, None]:
    """Await it in this task, in a copy of the task's context."""
    context = copy_context()
    try:
        awaited = context.run(work.send, None)
        while True:
            try:
                value = yield awaited
            except BaseException as fault:  # noqa: BLE001 - passed on to the work, which decides
                awaited = context.run(work.throw, fault)
            else:
                awaited = context.run(work.send, value)
    except StopIteration:
        return
    finally:
        work.close()
