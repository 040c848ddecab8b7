"""A topic in which a coordinator keeps its state: made on first use, one shard a partition, read from its start."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from qanat.broker.replicas.partition import Partition
from qanat.broker.runtime.cooperative_yield import CooperativeYield
from qanat.cluster.rejection import Rejection
from qanat.cluster.topics import CreateTopic
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.model.placement import coordinator_partition
from qanat.wire.batch_header import split_batches

if TYPE_CHECKING:
    from qanat.broker.broker import Broker

LOAD_PATIENCE_S = 1.0
"""How long a request waits for a shard that is being loaded."""
_LOAD_BYTES = 4 * 1024 * 1024


class Serving(Protocol):
    """A shard with its partition, as long as its appends succeed."""

    is_serving: bool

    def close(self) -> None: ...


Hosted = TypeVar("Hosted", bound=Serving)


class Loads(Generic[Hosted]):
    """Shards that are being loaded, each once however many ask for it.

    Nobody is answered by a shard that is not complete. Who asks waits a while, which spares most clients a second
    attempt, and is then told to come again.
    """

    def __init__(self) -> None:
        self._under_way: dict[int, asyncio.Task[Hosted | ErrorCode]] = {}

    async def wait(
        self, number: int, load: Callable[[int], Coroutine[None, None, Hosted | ErrorCode]]
    ) -> Hosted | ErrorCode:
        loading = self._under_way.get(number)
        if loading is None:
            loading = self._under_way[number] = asyncio.get_running_loop().create_task(load(number))
            loading.add_done_callback(lambda _: self._under_way.pop(number, None))
        done, _ = await asyncio.wait([loading], timeout=LOAD_PATIENCE_S)
        return loading.result() if done else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def not_loadable(error: ErrorCode) -> ErrorCode:
    """What clients are told where a shard's partition is not to be had."""
    is_broken = error is ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if is_broken else ErrorCode.NOT_COORDINATOR


class InternalTopic(Generic[Hosted]):
    """The shards of one internal topic that we lead; `host` reads a partition and starts its shard."""

    def __init__(
        self,
        broker: Broker,
        name: str,
        partition_count: int,
        replicas: int,
        configs: Mapping[str, str],
        host: Callable[[Partition], Awaitable[Hosted]],
        error_of: Callable[[ErrorCode], ErrorCode],
    ) -> None:
        self._broker = broker
        self.name = name
        self._partition_count = partition_count
        self._replicas = replicas
        self._configs = dict(configs)
        self._host = host
        self._error_of = error_of
        self._shards: dict[int, Hosted] = {}
        self._loads: Loads[Hosted] = Loads()
        self._creating = asyncio.Lock()

    def close(self) -> None:
        for shard in self._shards.values():
            shard.close()

    def partition_of(self, key: str) -> int:
        return coordinator_partition(key, self._partition_count)

    @property
    def is_there(self) -> bool:
        return self.name in self._broker.metadata.image.topics

    async def ensure(self) -> ErrorCode:
        """Create the topic on first use; an error where that is impossible now."""
        async with self._creating:
            if self.is_there:
                return ErrorCode.NONE
            request = CreateTopic(
                self.name,
                self._broker.new_topic_id(),
                partitions=self._partition_count,
                replication_factor=min(self._replicas, len(self._broker.metadata.image.brokers)),
                configs=self._configs,
                is_internal=True,
            )
            outcome = await self._broker.create_topic(request)
            return ErrorCode.COORDINATOR_NOT_AVAILABLE if isinstance(outcome, Rejection) else ErrorCode.NONE

    def loaded(self) -> list[Hosted]:
        """The shards that serve."""
        return [shard for shard in self._shards.values() if shard.is_serving]

    def numbers(self) -> list[int]:
        """The partitions that there are."""
        return list(range(len(self._broker.metadata.image.topics[self.name].partitions))) if self.is_there else []

    def take_over(self, partition: Partition) -> None:
        """We lead this partition from now on: load its shard without being asked, where it has something to tell."""
        self.drop(partition)
        if partition.log.end_offset > 0:
            self._broker.park(self.shard(partition.at.partition))

    def drop(self, partition: Partition) -> None:
        """We lead this partition no more: whoever waits is told to look for the coordinator again."""
        if (hosted := self._shards.pop(partition.at.partition, None)) is not None:
            hosted.close()

    async def shard(self, number: int) -> Hosted | ErrorCode:
        """A shard that serves, loaded if need be; everybody who asks meanwhile waits for the same load."""
        hosted = self._shards.get(number)
        if hosted is not None and hosted.is_serving:
            return hosted
        return await self._loads.wait(number, self._load)

    async def _load(self, number: int) -> Hosted | ErrorCode:
        if (error := await self.ensure()) is not ErrorCode.NONE:
            return error
        partition = self._broker.partition(self.name, number)
        if isinstance(partition, ErrorCode):
            return not_loadable(partition)
        try:
            hosted = await self._host(partition)
        except QanatError as fault:
            return self._error_of(fault.code)
        if partition.is_retired:
            hosted.close()
            return ErrorCode.NOT_COORDINATOR
        self._shards[number] = hosted
        return hosted


async def replay(partition: Partition, take: Callable[[memoryview], None]) -> None:
    """Hand over every batch of a partition, from its start to its end.

    It waits until all of them are committed: a shard decides by nothing that another leader could still undo. The
    wait ends with the leadership; clients are told COORDINATOR_LOAD_IN_PROGRESS meanwhile (`Loads`).
    """
    await partition.have_high_watermark()
    log, yielder = partition.log, CooperativeYield()
    offset = log.log_start_offset
    while offset < log.end_offset:
        part = await partition.read(offset, _LOAD_BYTES, log.end_offset)
        async for batch in yielder.over(batch for view in part.views() for batch in split_batches(view)):
            take(batch)
        offset = part.next_offset
