"""The load of a coordinator's shard: its partition is read from start to end, once for all requests that wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Generic, Protocol, TypeVar

from qanat.broker.replicas.partition import Partition
from qanat.broker.runtime.cooperative_yield import CooperativeYield
from qanat.model.error_codes import ErrorCode
from qanat.wire.batch_header import split_batches

LOAD_WAIT_S = 1.0
"""How long a request waits for a shard that is being loaded."""
_LOAD_BYTES = 4 * 1024 * 1024


class Serving(Protocol):
    """A shard with its partition, as long as its appends succeed."""

    is_serving: bool

    def close(self) -> None: ...


LoadedShard = TypeVar("LoadedShard", bound=Serving)


class Loads(Generic[LoadedShard]):
    """Shards that are being loaded, each once for all requests that wait for it.

    A shard answers nothing before it is complete. A request waits a while, which spares most clients a second attempt,
    and then gets a retriable error.
    """

    def __init__(self) -> None:
        self._under_way: dict[int, asyncio.Task[LoadedShard | ErrorCode]] = {}

    async def wait(
        self, number: int, load: Callable[[int], Coroutine[None, None, LoadedShard | ErrorCode]]
    ) -> LoadedShard | ErrorCode:
        loading = self._under_way.get(number)
        if loading is None:
            loading = self._under_way[number] = asyncio.get_running_loop().create_task(load(number))
            loading.add_done_callback(lambda _: self._under_way.pop(number, None))
        done, _ = await asyncio.wait([loading], timeout=LOAD_WAIT_S)
        return loading.result() if done else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def not_loadable(error: ErrorCode) -> ErrorCode:
    """The error for clients where a shard's partition cannot be loaded."""
    is_broken = error is ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if is_broken else ErrorCode.NOT_COORDINATOR


async def replay(partition: Partition, take: Callable[[memoryview], None]) -> None:
    """Pass every batch of a partition to `take`, from its start to its end.

    It waits until all of them are committed: a shard decides by nothing that another leader could still undo. The wait
    ends with the leadership; clients get COORDINATOR_LOAD_IN_PROGRESS meanwhile (`Loads`).
    """
    await partition.have_high_watermark()
    log, yielder = partition.log, CooperativeYield()
    offset = log.log_start_offset
    while offset < log.end_offset:
        part = await partition.read(offset, _LOAD_BYTES, log.end_offset)
        async for batch in yielder.over(batch for view in part.views() for batch in split_batches(view)):
            take(batch)
        offset = part.next_offset
