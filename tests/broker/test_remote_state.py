"""Share partitions whose state another broker persists: two brokers of one cluster, in one process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from qanat.adapters.memory_store import MemoryStore
from qanat.adapters.storage_engines import MemoryEngine
from qanat.app.node.node import Node
from qanat.app.settings.node_settings import NodeSettings
from qanat.broker.replicas.partition import Partition
from qanat.broker.settings.broker_settings import BrokerSettings
from qanat.broker.share.remote_state import RemoteShareState
from qanat.broker.share.share_partition import LedSharePartition
from qanat.cluster.topics import CreateTopic
from qanat.groups.consumer.records import TopicIdPartition
from qanat.groups.settings import GroupSettings
from qanat.groups.share.partition import Acknowledgement, Take
from qanat.groups.share.record_states import AcknowledgeType
from qanat.groups.share.state_records import ShareKey
from qanat.log.settings import DirectorySettings
from qanat.model.error_codes import ErrorCode
from qanat.wire.records import Record, encode_batch

PATIENCE_S = 60.0
PARTITIONS = 6


@asynccontextmanager
async def two_nodes() -> AsyncIterator[tuple[Node, Node]]:
    store = MemoryStore()
    settings = [
        NodeSettings(
            node_id=node_id,
            storage_engine="memory",
            broker=BrokerSettings(port=0, inter_broker_port=0),
            groups=GroupSettings(share_coordinator_state_topic_num_partitions=3),
        )
        for node_id in (1, 2)
    ]
    try:
        async with (
            Node(settings[0], store=store, engine=MemoryEngine(DirectorySettings())) as first,
            Node(settings[1], store=store, engine=MemoryEngine(DirectorySettings())) as second,
        ):
            yield first, second
    finally:
        await store.close()


async def leader_of(nodes: tuple[Node, Node], topic_id: bytes, number: int) -> tuple[Node, Partition]:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            for node in nodes:
                found = node.broker.lookup.led_by_id(topic_id, number)
                if isinstance(found, Partition):
                    return node, found
            await asyncio.sleep(0.01)


async def lead(node: Node, key: ShareKey) -> LedSharePartition:
    """A share partition, as soon as the persister of its state is found."""
    for _ in range(round(PATIENCE_S / 0.05)):
        led = await node.broker.share_partitions.lead(key)
        if isinstance(led, LedSharePartition):
            return led
        await asyncio.sleep(0.05)
    raise AssertionError(f"waited in vain: {led!r}")


async def meet(node: Node) -> None:
    """Both brokers know of each other."""
    for _ in range(round(PATIENCE_S / 0.01)):
        if len(node.broker.metadata.image.brokers) == 2:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("the brokers did not meet")


def test_what_is_accepted_is_kept_by_the_other_broker() -> None:
    async def run() -> None:
        async with two_nodes() as nodes:
            broker = nodes[0].broker
            await meet(nodes[0])
            request = CreateTopic("orders", broker.metadata_changes.new_topic_id(), partitions=PARTITIONS)
            await broker.metadata_changes.create_topic(request)
            topic_id = broker.metadata.image.topics["orders"].identity.value.bytes
            elsewhere = 0
            for number in range(PARTITIONS):
                node, partition = await leader_of(nodes, topic_id, number)
                key = ShareKey("g", topic_id, number)
                led = await lead(node, key)
                keeper = await node.broker.share_partitions.states.persister_of(key)
                elsewhere += isinstance(keeper, RemoteShareState)
                await work(led, partition)
                await node_forgets(node, key)
            assert 0 < elsewhere < PARTITIONS, "some of each"

    async def work(led: LedSharePartition, partition: Partition) -> None:
        records = [Record(number, 1, None, b"v") for number in range(4)]
        durable = partition.append_own(encode_batch(records)).durable
        if durable is not None:
            await durable
        handed = led.acquire("m", await led.read(1_000), Take(10))
        assert [(one.first_offset, one.last_offset) for one in handed.ranges] == [(0, 3)]
        accept, release = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE
        outcome = led.acknowledge("m", [Acknowledgement(0, 3, [accept, release, accept, release])])
        assert not isinstance(outcome, ErrorCode)
        await outcome  # It raises where the state is not persisted.

    async def node_forgets(node: Node, key: ShareKey) -> None:
        shares = node.broker.share_partitions
        led = shares.led(key)
        assert led is not None
        led.end()
        again = await lead(node, key)
        assert [(run.first_offset, run.state, run.delivery_count) for run, _ in again.records.runs()] == [
            (1, 0, 1),
            (2, 2, 0),
            (3, 0, 1),
        ]
        at = TopicIdPartition(key.topic_id, key.partition)
        assert await shares.reset("g", at, 2) is ErrorCode.NONE
        again.end()
        assert (await lead(node, key)).records.runs() == []
        assert (await shares.progress("g", at)).start_offset == 2
        assert await shares.forget("g", at) is ErrorCode.NONE
        assert (await shares.progress("g", at)).start_offset == -1

    asyncio.run(run())
