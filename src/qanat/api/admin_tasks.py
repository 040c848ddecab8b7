"""Administrative work: it runs to its end even if the client disconnects, and is answered in time.

A half-created topic helps no one. So such work belongs to the broker, not to the connection that requested it. The
client waits as long as its request says, and the requests behind it wait as well, as in Kafka.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Coroutine, Iterable
from typing import Any, TypeVar

from qanat.broker.broker import Broker
from qanat.broker.runtime.cooperative_yield import CooperativeYield
from qanat.cluster.rejection import Rejection
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError

Plan = TypeVar("Plan")
Row = TypeVar("Row")

TIMED_OUT = Rejection(ErrorCode.REQUEST_TIMED_OUT, "The request timed out; its effect may still happen.")
DUPLICATE = Rejection(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
INTERNAL = Rejection(ErrorCode.INVALID_TOPIC_EXCEPTION, "This topic holds the broker's own state: it cannot change.")
CLUSTER_METADATA = "__cluster_metadata"


async def run_to_end(broker: Broker, work: Coroutine[Any, Any, None], timeout_ms: int | None = None) -> None:
    """Return when the work is done or the time is up; in both cases it runs to its end.

    Without any time nothing is started, as in Kafka.
    """
    if timeout_ms is not None and timeout_ms <= 0:
        work.close()
        return
    task = broker.park(work)
    await asyncio.wait([task], timeout=None if timeout_ms is None else timeout_ms / 1000)
    if task.done():
        task.result()


def yielding(rows: Iterable[Row]) -> AsyncIterator[Row]:
    """Rows with a yield of their own, apart from the request's."""
    return CooperativeYield().over(rows)


async def attempt(work: Awaitable[Plan | Rejection]) -> Plan | Rejection:
    """The outcome of work; a fault of the store or the disk is a rejection."""
    try:
        return await work
    except QanatError as fault:
        return Rejection(fault.code, str(fault))


def duplicates_of(names: Iterable[str]) -> dict[str, None]:
    """Names that occur more than once, as keys."""
    return {name: None for name, count in Counter(names).items() if count > 1}
