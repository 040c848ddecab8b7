"""The acknowledgement of appended batches, for acks=all: all of them are durable, or the time is up.

Kafka's Produce, its fast path, what HTTP and push produce, acknowledgements and dead letters of share groups use it.
A batch is durable when its partition's `Written.durable` says so: on disk, and on every in-sync replica. What waits in
another way, and why, is in docs/internals/hot-path.md.

Rule 1: a batch that is not durable in the end is refused, once; then the whole is completed, once.
Rule 2: both happen in the turn of the event loop in which the last batch becomes durable.
Rule 3: a batch whose time is up may still become durable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from qanat.broker.runtime.ack_timeouts import AckTimeouts
from qanat.connection.faults import OutOfTimeError
from qanat.log.runtime.sync_future import SyncFuture
from qanat.model.errors import QanatError

Row = TypeVar("Row")
"""What the client knows a batch by."""
Refuse = Callable[[Row, QanatError], None]


class DurableAcknowledgement(Generic[Row]):
    """Waits for some batches, at most for a time."""

    __slots__ = ("_complete", "_refuse", "_timeouts", "_waiting")

    def __init__(
        self,
        waiting: dict[SyncFuture[None], Row],
        refuse: Refuse[Row],
        complete: Callable[[], None],
        timeouts: AckTimeouts,
        timeout_s: float,
    ) -> None:
        """`refuse` is called for a batch that is not durable in the end, `complete` after the last batch."""
        self._waiting = waiting
        self._refuse = refuse
        self._complete = complete
        self._timeouts = timeouts
        timeouts.begin(self, timeout_s)
        for durable in list(waiting):
            if durable.done():
                self._settled(durable)
            else:
                durable.sync_callback = self._settled

    def _settled(self, durable: SyncFuture[None]) -> None:
        waiting = self._waiting
        if durable not in waiting:
            return  # Its time was up.
        row = waiting.pop(durable)
        if (fault := _fault_of(durable)) is not None:
            self._refuse(row, fault)
        if not waiting:
            self._timeouts.end(self)
            self._complete()

    def time_out(self) -> None:
        """Refuse every batch that is not durable yet."""
        waiting, self._waiting = self._waiting, {}
        for row in waiting.values():
            self._refuse(row, OutOfTimeError("the batch was not on disk in time; it may still get there"))
        self._complete()


async def acknowledged(
    waiting: dict[SyncFuture[None], Row], refuse: Refuse[Row], timeouts: AckTimeouts, timeout_s: float
) -> None:
    """Return once every batch is durable or refused."""
    if waiting:
        completed: SyncFuture[None] = SyncFuture()
        DurableAcknowledgement(waiting, refuse, lambda: completed.settle(None), timeouts, timeout_s)
        await completed


def _fault_of(durable: SyncFuture[None]) -> QanatError | None:
    if durable.cancelled():
        return QanatError("the broker is stopping: whether the batch is on disk is not known")
    fault = durable.exception()
    return fault if fault is None or isinstance(fault, QanatError) else QanatError(str(fault))
