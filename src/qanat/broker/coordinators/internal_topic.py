"""Internal topic: where a coordinator stores its state. Created on first use; one shard a partition, read from its
start."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Generic

from qanat.broker.coordinators.coordinator_host import CoordinatorHost
from qanat.broker.coordinators.shard_loading import LoadedShard, Loads, not_loadable
from qanat.broker.replicas.partition import Partition
from qanat.cluster.rejection import Rejection
from qanat.cluster.topics import CreateTopic
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.model.placement import coordinator_partition


class InternalTopic(Generic[LoadedShard]):
    """The shards of one internal topic that we lead; `load` reads a partition and starts its shard."""

    def __init__(
        self,
        host: CoordinatorHost,
        name: str,
        partition_count: int,
        replicas: int,
        configs: Mapping[str, str],
        load: Callable[[Partition], Awaitable[LoadedShard]],
        error_of: Callable[[ErrorCode], ErrorCode],
    ) -> None:
        self._host = host
        self.name = name
        self._partition_count = partition_count
        self._replicas = replicas
        self._configs = dict(configs)
        self._load_shard = load
        self._error_of = error_of
        self._shards: dict[int, LoadedShard] = {}
        self._loads: Loads[LoadedShard] = Loads()
        self._creating = asyncio.Lock()

    def close(self) -> None:
        for shard in self._shards.values():
            shard.close()

    def partition_of(self, key: str) -> int:
        return coordinator_partition(key, self._partition_count)

    @property
    def is_there(self) -> bool:
        return self.name in self._host.metadata.image.topics

    async def ensure(self) -> ErrorCode:
        """Create the topic on first use; an error where that is impossible now."""
        async with self._creating:
            if self.is_there:
                return ErrorCode.NONE
            request = CreateTopic(
                self.name,
                self._host.metadata_changes.new_topic_id(),
                partitions=self._partition_count,
                replication_factor=min(self._replicas, len(self._host.metadata.image.brokers)),
                configs=self._configs,
                is_internal=True,
            )
            outcome = await self._host.metadata_changes.create_topic(request)
            return ErrorCode.COORDINATOR_NOT_AVAILABLE if isinstance(outcome, Rejection) else ErrorCode.NONE

    def loaded(self) -> list[LoadedShard]:
        """The shards that serve."""
        return [shard for shard in self._shards.values() if shard.is_serving]

    def numbers(self) -> list[int]:
        """The partitions of the topic."""
        return list(range(len(self._host.metadata.image.topics[self.name].partitions))) if self.is_there else []

    def take_over(self, partition: Partition) -> None:
        """We lead this partition from now on: load its shard before a client asks for it, where it holds records."""
        self.drop(partition)
        if partition.log.end_offset > 0:
            self._host.park(self.shard(partition.at.partition))

    def drop(self, partition: Partition) -> None:
        """We lead this partition no more: clients that wait look for the coordinator again."""
        if (shard := self._shards.pop(partition.at.partition, None)) is not None:
            shard.close()

    async def shard(self, number: int) -> LoadedShard | ErrorCode:
        """A shard that serves, loaded if need be; all requests meanwhile wait for the same load."""
        shard = self._shards.get(number)
        if shard is not None and shard.is_serving:
            return shard
        return await self._loads.wait(number, self._load)

    async def _load(self, number: int) -> LoadedShard | ErrorCode:
        if (error := await self.ensure()) is not ErrorCode.NONE:
            return error
        partition = self._host.lookup.led(self.name, number)
        if isinstance(partition, ErrorCode):
            return not_loadable(partition)
        try:
            shard = await self._load_shard(partition)
        except QanatError as fault:
            return self._error_of(fault.code)
        if partition.is_retired:
            shard.close()
            return ErrorCode.NOT_COORDINATOR
        self._shards[number] = shard
        return shard
