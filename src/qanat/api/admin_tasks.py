"""Acts of administration: carried to their end whoever goes away, and answered in time.

A topic that is half created because its creator hung up would help nobody. So an
act belongs to the broker, not to the connection that asked for it; who asked
waits as long as the request says, with the requests behind it waiting too, as Kafka does.
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

TIMED_OUT = Rejection(ErrorCode.REQUEST_TIMED_OUT, "The request timed out; what it asked for may still happen.")
DUPLICATE = Rejection(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
INTERNAL = Rejection(ErrorCode.INVALID_TOPIC_EXCEPTION, "This topic holds the broker's own state: it is left as it is.")
CLUSTER_METADATA = "__cluster_metadata"


async def carry_through(broker: Broker, work: Coroutine[Any, Any, None], timeout_ms: int | None = None) -> None:
    """Return when the work is done or the time is up; either way it goes on to its end.

    No time at all means that nothing is begun, as in Kafka.
    """
    if timeout_ms is not None and timeout_ms <= 0:
        work.close()
        return
    task = broker.park(work)
    await asyncio.wait([task], timeout=None if timeout_ms is None else timeout_ms / 1000)
    if task.done():
        task.result()


def in_turns(rows: Iterable[Row]) -> AsyncIterator[Row]:
    """Rows that nothing else of the request is gone through with."""
    return CooperativeYield().over(rows)


async def attempt(work: Awaitable[Plan | Rejection]) -> Plan | Rejection:
    """An outcome, where the store or the disk may fail as well."""
    try:
        return await work
    except QanatError as fault:
        return Rejection(fault.code, str(fault))


def repeated(names: Iterable[str]) -> dict[str, None]:
    """Names that come more than once, each once; as keys, because they are looked up."""
    return {name: None for name, count in Counter(names).items() if count > 1}
