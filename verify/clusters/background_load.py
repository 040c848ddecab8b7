"""Background load of a simulated cluster: a group that commits offsets, an operator who moves partitions, and a topic
that is created and deleted again and again under one name.

Each part compares the cluster with the responses that it got, and adds contradictions to `problems`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from random import Random
from typing import Any

from qanat.connection.batch_producer import BatchProducer
from qanat.connection.cluster import Address, Cluster
from qanat.connection.committed import commit_offsets, committed_offsets
from qanat.connection.deadline import Deadline
from qanat.connection.faults import check
from qanat.connection.fetching import FetchLimits, fetch
from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition
from qanat.wire.kafka.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from qanat.wire.kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest
from qanat.wire.kafka.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from qanat.wire.kafka.registry import ApiKey
from qanat.wire.records import Record, encode_batch
from verify.clusters.machine import wall_ms

_OPERATION_S = 8.0
_BRIEF = "brief"
_GROUP = "g"


class BackgroundLoad:
    """All clients besides producers and consumers."""

    def __init__(
        self, bootstrap: Sequence[Address], topic: str, partitions: int, replicas: int, seed: int | str
    ) -> None:
        self._bootstrap = list(bootstrap)
        self._topic = topic
        self._partitions = partitions
        self._replicas = replicas
        self._random = Random(f"bystanders {seed}")  # The text decides what a seed draws: it stays.
        self._life = 0
        """Number of the topic that is written to, among those of one name."""
        self._gone = 0
        """The last of them that was certainly deleted."""
        self._committed = self._asked = -1
        self.problems: list[str] = []
        self.is_over = False

    async def _pause(self, mean_s: float) -> None:
        await asyncio.sleep(self._random.expovariate(1 / mean_s))

    # A group

    async def commit(self, name: str) -> None:
        """Commit growing offsets, and sometimes read them back."""
        at = TopicPartition(self._topic, 0)
        while not self.is_over:
            async with Cluster(self._bootstrap, name, _OPERATION_S) as cluster:
                try:
                    while not self.is_over:
                        self._asked += 1
                        await commit_offsets(cluster, _GROUP, {at: self._asked}, Deadline.after(_OPERATION_S))
                        self._committed = self._asked
                        await self._pause(0.1)
                        if self._random.random() < 0.2:
                            await self._look(cluster, at)
                except QanatError:
                    await self._pause(0.1)

    async def _look(self, cluster: Cluster, at: TopicPartition) -> None:
        found = (await committed_offsets(cluster, _GROUP, Deadline.after(_OPERATION_S))).get(at, -1)
        if not self._committed <= found <= self._asked:
            self.problems.append(
                f"lost-commit: {self._committed} was committed, {self._asked} was asked for, and {found} is there"
            )

    async def check_at_the_end(self) -> None:
        """Check after healing: committed offsets are there, deleted records are not."""
        if self._committed >= 0:
            await self._insist(lambda cluster: self._look(cluster, TopicPartition(self._topic, 0)))
        if self._gone:
            # The topic may have lost every copy; then it waits for an operator, who gives it up here.
            await self._insist(self._delete)
            await self._insist(self._read)

    async def _insist(self, act: Callable[[Cluster], Coroutine[Any, Any, None]]) -> None:
        async with asyncio.timeout(60), Cluster(self._bootstrap, "final", _OPERATION_S) as cluster:
            while True:
                try:
                    await act(cluster)
                    return
                except QanatError:
                    await asyncio.sleep(0.1)

    # An operator

    async def move(self, name: str) -> None:
        """Reassign partitions to other replicas, or cancel a reassignment."""
        while not self.is_over:
            await self._pause(1.0)
            async with Cluster(self._bootstrap, name, _OPERATION_S) as cluster:
                try:
                    await self._move_once(cluster)
                except QanatError:
                    continue  # The controller refused it or did not respond; the next one may succeed.

    async def _move_once(self, cluster: Cluster) -> None:
        target: list[int] | None = self._random.sample(range(len(self._bootstrap)), self._replicas)
        if self._random.random() < 0.2:
            target = None
        partition = ReassignablePartition(self._random.randrange(self._partitions), target)
        request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(self._topic, [partition])])
        await cluster.call_controller(ApiKey.ALTER_PARTITION_REASSIGNMENTS, request, Deadline.after(_OPERATION_S))

    # Topics that are created and deleted

    async def recreate(self, name: str) -> None:
        """Create a topic, write to it, delete it: no record of a deleted topic may return."""
        while not self.is_over:
            async with Cluster(self._bootstrap, name, _OPERATION_S) as cluster:
                try:
                    while not self.is_over:
                        await self._live_once(cluster)
                except QanatError:
                    await self._pause(0.1)

    async def _live_once(self, cluster: Cluster) -> None:
        deadline = Deadline.after(_OPERATION_S)
        await self._begin_life(cluster, deadline)
        producer = await BatchProducer.idempotent(cluster, deadline)
        for _ in range(self._random.randint(1, 5)):
            value = str(self._life).encode()
            await producer.send(_BRIEF, {0: encode_batch([Record(0, wall_ms(), b"", value)])}, deadline)
            await self._pause(0.02)
        await self._pause(0.6)
        await self._delete(cluster)

    async def _delete(self, cluster: Cluster) -> None:
        deleted = DeleteTopicsRequest([_BRIEF], [DeleteTopicState(_BRIEF)], 8000)
        answer = await cluster.call_controller(ApiKey.DELETE_TOPICS, deleted, Deadline.after(_OPERATION_S))
        if not answer.responses[0].error_code:
            self._gone = self._life

    async def _begin_life(self, cluster: Cluster, deadline: Deadline) -> None:
        self._life += 1
        created = CreateTopicsRequest([CreatableTopic(_BRIEF, 1, self._replicas, [], [])], 8000)
        await cluster.call_controller(ApiKey.CREATE_TOPICS, created, deadline)

    async def _read(self, cluster: Cluster) -> None:
        """Look for deleted records, when every broker knows that they are deleted."""
        deadline = Deadline.after(_OPERATION_S)
        await self._begin_life(cluster, deadline)
        view = await cluster.topic(_BRIEF, deadline)
        link = await cluster.node_link(view.leaders[0], deadline)
        for row in await fetch(link, _BRIEF, {0: 0}, FetchLimits(max_wait_ms=100), deadline):
            check(_BRIEF, row.error_code)
            for record in row.records:
                life = int(bytes(record.value or b"0"))
                if life <= self._gone:
                    self.problems.append(f"resurfaced: {_BRIEF}@{record.offset} is of life {life}, which was deleted")
