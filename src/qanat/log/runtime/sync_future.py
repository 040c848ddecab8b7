"""What is waited for, told in the turn in which it is there: a record on disk, the answer to a parked fetch.

A future tells its callbacks one turn of the loop later, and each future made from another adds a turn. For what
somebody waits for all the time, those turns cost more than the answer. So one listener is called at once
(`at_once`); everybody else may treat it as any other future.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

Result = TypeVar("Result")


class SyncFuture(asyncio.Future[Result]):
    """Settled by `settle`, `settle_with_fault` or `cancel`; whichever is first counts.

    One is made for every write that waits for the disk: what is seldom there is no attribute of its own until it is,
    and a listener is let go of when it was told, since it often holds this.
    """

    at_once: Callable[[SyncFuture[Result]], object] | None = None
    _keepers: list[Callable[[SyncFuture[Result]], object]] | None = None

    def on_settled(self, forget: Callable[[SyncFuture[Result]], object]) -> None:
        """Whoever keeps this until it is settled is told in the same turn, too, before `at_once`."""
        if self._keepers is None:
            self._keepers = [forget]
        else:
            self._keepers.append(forget)

    def settle(self, result: Result) -> None:
        if not self.done():  # Whoever waited may have been cancelled meanwhile.
            self.set_result(result)
            self._tell()

    def settle_with_fault(self, fault: BaseException) -> None:
        if not self.done():
            self.set_exception(fault)
            self._tell()

    def cancel(self, msg: Any = None) -> bool:
        if not super().cancel(msg):
            return False
        self._tell()
        return True

    def _tell(self) -> None:
        if self._keepers is not None:
            keepers, self._keepers = self._keepers, None
            for forget in keepers:
                forget(self)
        if (listener := self.at_once) is not None:
            self.at_once = None
            try:
                listener(self)
            except Exception as bug:  # noqa: BLE001 - one who waits must not keep whoever settles from the others
                told = {"message": "whoever waited for this failed when it was told", "exception": bug, "future": self}
                self.get_loop().call_exception_handler(told)
