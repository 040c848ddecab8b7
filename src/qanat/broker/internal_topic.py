"""A topic in which a coordinator keeps its state: made on first use, one shard a partition, read from its start."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from qanat.broker.partition import Partition
from qanat.cluster.rejection import Rejection
from qanat.cluster.topics import CreateTopic
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.model.placement import partition_of
from qanat.wire.batch_header import split_batches

if TYPE_CHECKING:
    from qanat.broker.broker import Broker

_LOAD_BYTES = 4 * 1024 * 1024


class Serving(Protocol):
    """A shard with its partition, as long as its appends succeed."""

    is_serving: bool

    def close(self) -> None: ...


Hosted = TypeVar("Hosted", bound=Serving)


class InternalTopic(Generic[Hosted]):
    """The shards of one internal topic that we lead; `host` reads a partition and starts its shard."""

    def __init__(
        self,
        broker: Broker,
        name: str,
        partition_count: int,
        configs: Mapping[str, str],
        host: Callable[[Partition], Awaitable[Hosted]],
        error_of: Callable[[ErrorCode], ErrorCode],
    ) -> None:
        self._broker = broker
        self.name = name
        self._partition_count = partition_count
        self._configs = dict(configs)
        self._host = host
        self._error_of = error_of
        self._shards: dict[int, Hosted] = {}
        self._loading: dict[int, asyncio.Future[Hosted | ErrorCode]] = {}
        self._creating = asyncio.Lock()

    def close(self) -> None:
        for shard in self._shards.values():
            shard.close()

    def partition_of(self, key: str) -> int:
        return partition_of(key, self._partition_count)

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

    async def shard(self, number: int) -> Hosted | ErrorCode:
        """A shard that serves, loaded if need be; everybody who asks meanwhile waits for the same load."""
        hosted = self._shards.get(number)
        if hosted is not None and hosted.is_serving:
            return hosted
        if number not in self._loading:
            self._loading[number] = asyncio.ensure_future(self._load(number))
        try:
            return await asyncio.shield(self._loading[number])
        finally:
            if number in self._loading and self._loading[number].done():
                del self._loading[number]

    async def _load(self, number: int) -> Hosted | ErrorCode:
        if (error := await self.ensure()) is not ErrorCode.NONE:
            return error
        partition = self._broker.partition(self.name, number)
        if isinstance(partition, ErrorCode):
            return ErrorCode.NOT_COORDINATOR
        try:
            self._shards[number] = await self._host(partition)
        except QanatError as fault:
            return self._error_of(fault.code)
        return self._shards[number]


async def replay(partition: Partition, take: Callable[[memoryview], None]) -> None:
    """Hand over every batch of a partition, from its start to its end."""
    log = partition.log
    offset = log.log_start_offset
    while offset < log.end_offset:
        part = await partition.read(offset, _LOAD_BYTES, log.end_offset)
        for batch in (batch for view in part.views() for batch in split_batches(view)):
            take(batch)
        offset = part.next_offset
