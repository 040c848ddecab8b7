"""A response that is waited for, told in the turn in which it is there.

A future tells its callbacks one turn of the loop later, and each future made from another adds a turn. For an answer
that somebody waits for all the time, those turns cost more than the answer. So one listener is called at once
(`at_once`); everybody else may treat it as any other future.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

Result = TypeVar("Result")


class Prompt(asyncio.Future[Result]):
    """Settled by `settle`, `settle_with_fault` or `cancel`, once."""

    def __init__(self) -> None:
        super().__init__()
        self.at_once: Callable[[Prompt[Result]], None] | None = None
        self._keepers: list[Callable[[Prompt[Result]], object]] = []

    def on_settled(self, forget: Callable[[Prompt[Result]], object]) -> None:
        """Whoever keeps this until it is settled is told in the same turn, too, before `at_once`."""
        self._keepers.append(forget)

    def settle(self, result: Result) -> None:
        self.set_result(result)
        self._tell()

    def settle_with_fault(self, fault: BaseException) -> None:
        self.set_exception(fault)
        self._tell()

    def cancel(self, msg: Any = None) -> bool:
        if not super().cancel(msg):
            return False
        self._tell()
        return True

    def _tell(self) -> None:
        keepers, self._keepers = self._keepers, []
        for forget in keepers:
            forget(self)
        listener, self.at_once = self.at_once, None
        if listener is not None:
            listener(self)
