"""A broker's replicas on a real data directory, with an image that the test changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.cluster.images import apply, image_with, new_topic_id
from tests.log.directories import opened, running

from qanat.adapters.memory_files import MemoryFiles
from qanat.broker.replicas.local_replicas import FollowerReplica, LocalReplicas
from qanat.broker.settings import topic_settings
from qanat.cluster import keys, values
from qanat.cluster.image import MetadataImage
from qanat.cluster.store import Put
from qanat.log.directories.directory import LogDirectory
from qanat.log.runtime.log_runtime import LogRuntime
from qanat.model.ids import TopicId, TopicPartition

ME, OTHER, THIRD = 0, 1, 2
AT = TopicPartition("orders", 0)
NOW_MS = 500


@dataclass
class Fetchers:
    """Notes which replicas follow."""

    replicas: dict[TopicPartition, FollowerReplica] = field(default_factory=dict)
    truncating: dict[TopicPartition, asyncio.Future[None]] = field(default_factory=dict)

    def follow(self, replica: FollowerReplica) -> None:
        self.replicas[replica.at] = replica

    def leave(self, at: TopicPartition) -> None:
        self.replicas.pop(at, None)

    async def close(self) -> None:
        self.replicas.clear()


@dataclass
class Stage:
    """One broker's replicas on an image that the test changes."""

    image: MetadataImage
    runtime: LogRuntime
    identity: TopicId = field(default_factory=new_topic_id)
    configs: dict[str, str] = field(default_factory=dict)
    events: list[tuple[str, int]] = field(default_factory=list)
    faults: int = 0

    def __post_init__(self) -> None:
        self.tasks: list[asyncio.Task[None]] = []
        self.fetchers = Fetchers()
        self.replicas = LocalReplicas(
            ME,
            self.runtime,
            self.image,
            lambda _: topic_settings.parse(self.configs),
            self.spawn,
            lambda: NOW_MS,
            lambda: 1,
        )
        self.replicas.fetchers = self.fetchers
        self.replicas.lag_max_ms = 1000
        self.replicas.on_leading = lambda one: self.events.append(("leads", one.leader_epoch))
        self.replicas.on_resigned = lambda one: self.events.append(("resigned", one.leader_epoch))
        self.replicas.on_faults = self._count_fault

    def _count_fault(self) -> None:
        self.faults += 1

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self.tasks.append(asyncio.create_task(work))

    def put_topic(self, *states: values.PartitionState, name: str = "orders") -> None:
        replicas = tuple(state.replicas for state in states)
        topic = values.Topic(name=name, topic_id=str(self.identity), partitions=replicas)
        reference = values.encode(values.TopicReference(name=name))
        apply(self.image, [Put(keys.topic(name), values.encode(topic)), Put(keys.topic_id(self.identity), reference)])
        apply(
            self.image,
            [Put(keys.partition(self.identity, number), values.encode(state)) for number, state in enumerate(states)],
        )

    def put_state(self, state: values.PartitionState) -> None:
        """Change the state of the first partition, and act on it."""
        apply(self.image, [Put(keys.partition(self.identity, 0), values.encode(state))])
        self.replicas.lead_or_follow(self.image.topics["orders"], 0)


def state(
    leader: int = ME, epoch: int = 4, replicas: tuple[int, ...] = (ME, OTHER), in_sync: tuple[int, ...] = (ME, OTHER)
) -> values.PartitionState:
    members = tuple(values.Member(node_id, 1) for node_id in in_sync)
    return values.PartitionState(leader=leader, leader_epoch=epoch, replicas=replicas, in_sync=members)


@asynccontextmanager
async def unstarted(directory: LogDirectory | None = None) -> AsyncIterator[Stage]:
    """A broker whose replicas are yet to be started, on an empty directory or this one."""
    async with running(opened(MemoryFiles()) if directory is None else directory) as runtime:
        found = Stage(image_with((ME, OTHER, THIRD)), runtime)
        try:
            yield found
        finally:
            for task in found.tasks:
                task.cancel()
            await asyncio.gather(*found.tasks, return_exceptions=True)


@asynccontextmanager
async def stage(*states: values.PartitionState, directory: LogDirectory | None = None) -> AsyncIterator[Stage]:
    """A broker at work, with a topic whose partitions have these states."""
    async with unstarted(directory) as found:
        if states:
            found.put_topic(*states)
        await found.replicas.start(found.image.revision)
        yield found
