"""A small simulated cluster that plays a script instead of meeting chance."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from verify.clusters.checks import agreement_problems
from verify.clusters.machine import PORT, Machine, wall_ms
from verify.clusters.plan import Plan
from verify.clusters.run import ClusterRun

from qanat.cluster import keys, values
from qanat.connection.batch_producer import BatchProducer
from qanat.connection.cluster import Address, Cluster
from qanat.connection.deadline import Deadline
from qanat.connection.fetching import FetchLimits, fetch
from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition
from qanat.testing.simulation.loop import SimLoop
from qanat.testing.simulation.network import SimNetwork
from qanat.wire.records import Record, encode_batch

TOPIC = "t"
AT = TopicPartition(TOPIC, 0)
Script = Callable[["Stage"], Coroutine[Any, Any, None]]
_TIMEOUT_S = 60.0


class Stage(ClusterRun):
    """Brokers 0, 1, … and one topic of one partition, which begins with broker 0 as its leader or another."""

    def __init__(
        self,
        script: Script,
        *,
        brokers: int = 3,
        replicas: int = 3,
        min_in_sync: int = 2,
        configs: dict[str, str] | None = None,
        is_synced: bool = True,
        has_users: bool = False,
    ) -> None:
        plan = Plan(
            brokers=brokers,
            replicas=replicas,
            min_in_sync=min_in_sync,
            partitions=1,
            segment_bytes=1024 * 1024,
            is_synced=is_synced,
            seconds=0.0,
            faults=(),
            producers=0,
            transactors=0,
            has_operator=False,
            has_group=False,
            rivals=0,
            slow_share=0.0,
            work_s=0.0005,
            has_users=has_users,
        )
        super().__init__(1, plan)
        self._script = script
        self.topic_configs = configs or {}
        self.bootstrap: list[Address] = []

    async def _live(self, loop: SimLoop) -> None:
        self.bootstrap = await self._boot(loop)
        await self._script(self)

    @property
    def loop(self) -> SimLoop:
        return self._loop

    @property
    def network(self) -> SimNetwork:
        return self._network

    # Looking

    @property
    def revision(self) -> int:
        """The store's."""
        return self._truth.revision

    @property
    def state(self) -> values.PartitionState:
        """Who leads the partition, as the store has it."""
        topic_entry = self._truth.peek(keys.topic(TOPIC))
        assert topic_entry is not None
        topic = values.decode(values.Topic, topic_entry.value)
        entry = self._truth.peek(keys.partition(topic.identity, 0))
        if entry is not None:
            return values.decode(values.PartitionState, entry.value)
        node = next(machine.node for machine in self.machines if machine.node is not None)
        return node.broker.metadata.image.state(topic, 0)

    @property
    def leader(self) -> Machine:
        return self.machines[self.state.leader]

    @property
    def followers(self) -> list[Machine]:
        return [machine for machine in self.machines if machine is not self.leader]

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait; a script that waits in vain has failed."""
        deadline = self._loop.time() + _TIMEOUT_S
        while not condition():
            assert self._loop.time() < deadline, f"in vain: {what}"
            await asyncio.sleep(0.05)

    async def whole_again(self) -> None:
        """Wait until there is a leader, all replicas are in sync, and all are equal."""
        await self.until(lambda: not agreement_problems(self.machines, TOPIC, 1), "all agree")

    # Using

    async def send(self, value: bytes, seconds: float = 20.0) -> int | None:
        """Write one record with acks=all; returns its offset, or None where it was not acknowledged in time."""
        async with Cluster(self.bootstrap, "writer", seconds) as cluster:
            return await _send(cluster, value, seconds)

    async def send_to(self, machine: Machine, value: bytes, seconds: float = 3.0) -> int | None:
        """The same by a client that knows only this broker."""
        async with Cluster([(machine.host, PORT)], "writer", seconds) as cluster:
            return await _send(cluster, value, seconds)

    async def read(self) -> list[bytes]:
        """Everything that is committed."""
        async with Cluster(self.bootstrap, "reader", 20.0) as cluster:
            deadline = Deadline.after(20.0)
            view = await cluster.topic(TOPIC, deadline)
            link = await cluster.node_link(view.leaders[0], deadline)
            rows = await fetch(link, TOPIC, {0: 0}, FetchLimits(max_wait_ms=100), deadline)
            assert [row.error_code for row in rows] == [0]
            return [bytes(record.value or b"") for record in rows[0].records]


async def _send(cluster: Cluster, value: bytes, seconds: float) -> int | None:
    deadline = Deadline.after(seconds)
    try:
        producer = await BatchProducer.idempotent(cluster, deadline)
        offsets = await producer.send(TOPIC, {0: encode_batch([Record(0, wall_ms(), b"", value)])}, deadline)
    except QanatError:
        return None
    return offsets[0]


def play(script: Script, **options: Any) -> None:
    """Run a script to its end; whatever it raises is what is wrong."""
    report = Stage(script, **options).run()
    assert report.problems == [], report.problems[0]
