"""A future that calls back at once: a record is on disk, a parked fetch has its answer.

An asyncio future runs its callbacks one iteration of the loop later, and each future made from another adds one. On
the hot path those iterations cost more than the answer. So one callback runs at once
(`sync_callback`); everywhere else this is a future like any other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

Result = TypeVar("Result")


class SyncFuture(asyncio.Future[Result]):
    """Settled by `settle`, `settle_with_fault` or `cancel`; the first counts.

    One is made for every write that waits for the disk: rare attributes exist only once they are set,
    and a callback is dropped when it has run, since it often refers to this future.
    """

    sync_callback: Callable[[SyncFuture[Result]], object] | None = None
    _settle_callbacks: list[Callable[[SyncFuture[Result]], object]] | None = None

    def on_settled(self, callback: Callable[[SyncFuture[Result]], object]) -> None:
        """Call `callback` in the same iteration, too, before `sync_callback`: for collections that hold this."""
        if self._settle_callbacks is None:
            self._settle_callbacks = [callback]
        else:
            self._settle_callbacks.append(callback)

    def settle(self, result: Result) -> None:
        if not self.done():  # The waiter may have been cancelled meanwhile.
            self.set_result(result)
            self._notify()

    def settle_with_fault(self, fault: BaseException) -> None:
        if not self.done():
            self.set_exception(fault)
            self._notify()

    def cancel(self, msg: Any = None) -> bool:
        if not super().cancel(msg):
            return False
        self._notify()
        return True

    def _notify(self) -> None:
        if self._settle_callbacks is not None:
            callbacks, self._settle_callbacks = self._settle_callbacks, None
            for callback in callbacks:
                callback(self)
        if (listener := self.sync_callback) is not None:
            self.sync_callback = None
            try:
                listener(self)
            except Exception as bug:  # noqa: BLE001 - a failing callback must not keep the settler from others
                context = {"message": "a callback of this future failed", "exception": bug, "future": self}
                self.get_loop().call_exception_handler(context)
