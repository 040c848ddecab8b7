"""A topic's id is no way around the rules about its name, also not while the topic is being deleted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.servers.kafka.producer_here import TOPIC, ProducerHere, fetch_frame, one_batch
from tests.servers.kafka.two_brokers import Revised

from qanat.api.interceptor import authorize
from qanat.broker.replicas.partition import Partition
from qanat.broker.share.share_partition import LedSharePartition
from qanat.cluster.topics import decide_delete
from qanat.groups.share.state_records import ShareKey
from qanat.model.error_codes import ErrorCode
from qanat.security.authorization import Operation
from qanat.servers.listener_security import ListenerSecurity
from qanat.testing import BrokerHere
from qanat.wire.kafka.messages import fetch

VERSION = 16


def connected(broker: BrokerHere, *allowed: Operation) -> ProducerHere:
    client, authorizer = ProducerHere(broker), Revised()
    authorizer.allowed = frozenset(allowed)
    client.dispatcher.interceptor = authorize
    client.connection.security = ListenerSecurity(authorizer=authorizer)
    return client


async def fetched(client: ProducerHere, topic_id: bytes) -> tuple[int, bytes]:
    """The error and the records of a fetch by id."""
    client.send(fetch_frame(VERSION, topic_id=topic_id))
    answer = fetch.read_response(memoryview(await client.answer()), VERSION, position=9)
    row = answer.responses[0].partitions[0]
    return row.error_code, b"".join(map(bytes, row.records or []))


@asynccontextmanager
async def being_deleted(broker: BrokerHere) -> AsyncIterator[None]:
    """The topic is deleted, and its replicas wait for what else is done to them: as while their logs are created."""
    inner = broker.node.broker
    async with inner.local_replicas._locks.setdefault(TOPIC, asyncio.Lock()):
        deletion = asyncio.create_task(inner.metadata_changes.carry_out(lambda image: decide_delete(image, TOPIC)))
        async with asyncio.timeout(30):
            while TOPIC in inner.metadata.image.topics:  # noqa: ASYNC110 - the image sends no event to clients
                await asyncio.sleep(0)
        yield
    await deletion


async def created(broker: BrokerHere) -> Partition:
    """The topic's partition, with a record."""
    await broker.create_topic(TOPIC)
    partition = broker.node.broker.lookup.led(TOPIC, 0)
    assert isinstance(partition, Partition)
    written = partition.append_now(one_batch())
    assert written is not None
    if written.durable is not None:
        await written.durable
    return partition


async def test_an_id_of_a_topic_that_is_being_deleted_reads_nothing_without_the_right() -> None:
    async with BrokerHere() as broker:
        partition = await created(broker)
        stranger = connected(broker)
        assert await fetched(stranger, partition.topic_id) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, b"")
        assert (await fetched(connected(broker, Operation.READ), partition.topic_id))[0] == ErrorCode.NONE

        async with being_deleted(broker):
            assert not partition.is_retired
            assert await fetched(stranger, partition.topic_id) == (ErrorCode.UNKNOWN_TOPIC_ID, b"")
        assert await fetched(stranger, partition.topic_id) == (ErrorCode.UNKNOWN_TOPIC_ID, b"")


async def test_share_groups_acquire_nothing_of_a_topic_that_is_being_deleted() -> None:
    async with BrokerHere() as broker:
        partition, shares = await created(broker), broker.node.broker.share_partitions
        key = ShareKey("group", partition.topic_id, 0)
        assert isinstance(await shares.lead(key), LedSharePartition)

        async with being_deleted(broker):
            assert not partition.is_retired
            assert shares.led(key) is None
            assert await shares.lead(key) is ErrorCode.UNKNOWN_TOPIC_ID
