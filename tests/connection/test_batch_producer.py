"""Producers that wait for whole batches: identities, refusals, transactions whose outcome is not certain."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from qanat.connection.batch_producer import BatchProducer, produce
from qanat.connection.cluster import Cluster, parse_bootstrap
from qanat.connection.deadline import Deadline
from qanat.connection.faults import OutOfTimeError, RefusedError
from qanat.connection.offsets import LATEST, list_offsets
from qanat.model.error_codes import ErrorCode
from qanat.testing import EmbeddedBroker
from qanat.wire.records import Record, encode_batch

TOPIC = "orders"


@pytest.fixture(scope="module")
def shared() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as found:
        yield found


@pytest.fixture
def broker(shared: EmbeddedBroker) -> EmbeddedBroker:
    shared.heal()
    return shared


def cluster_of(broker: EmbeddedBroker) -> Cluster:
    return Cluster(parse_bootstrap(broker.bootstrap_servers), timeout_s=20.0)


def batch(*values: bytes) -> bytearray:
    return encode_batch([Record(offset, 1000, None, value) for offset, value in enumerate(values)])


def values(broker: EmbeddedBroker, topic: str) -> list[bytes | None]:
    return [one.value for one in broker.records(topic)]


async def test_a_batch_for_each_partition_is_one_request(broker: EmbeddedBroker) -> None:
    async with cluster_of(broker) as cluster:
        broker.create_topic("wide", partitions=3)
        producer = await BatchProducer.idempotent(cluster, cluster.deadline())
        batches = {number: batch(b"%d" % number) for number in range(3)}
        assert await producer.send("wide", batches, cluster.deadline()) == {0: 0, 1: 0, 2: 0}
        lost = broker.lose_answer("Produce")
        again = {number: batch(b"again") for number in range(3)}
        assert await producer.send("wide", again, cluster.deadline()) == {0: 1, 1: 1, 2: 1}
        assert lost.struck == 1
        assert len(values(broker, "wide")) == 6


async def test_a_refused_batch_leaves_its_numbers_to_the_next_one_also_in_a_transaction(broker: EmbeddedBroker) -> None:
    async with cluster_of(broker) as cluster:
        broker.create_topic("refusing")
        producer = await BatchProducer.transactional(cluster, "refusing", 30_000, cluster.deadline())
        await producer.send("refusing", {0: batch(b"a")}, cluster.deadline())
        broker.fail("Produce", ErrorCode.INVALID_RECORD)
        with pytest.raises(RefusedError, match="refusing partition 0 did not take the records: INVALID_RECORD"):
            await producer.send("refusing", {0: batch(b"b", b"c")}, cluster.deadline())
        assert await producer.send("refusing", {0: batch(b"d")}, cluster.deadline()) == {0: 1}
        await producer.end(cluster.deadline(), is_committed=True)
        assert values(broker, "refusing") == [b"a", b"d"]


async def test_a_transaction_with_an_uncertain_batch_can_only_be_aborted_and_the_next_one_works(
    broker: EmbeddedBroker,
) -> None:
    async with cluster_of(broker) as cluster:
        broker.create_topic("uncertain")
        producer = await BatchProducer.transactional(cluster, "uncertain", 30_000, cluster.deadline())
        broker.lose_answer("Produce", times=1000)
        with pytest.raises(Exception, match="closed the connection"):
            await producer.send("uncertain", {0: batch(b"a")}, Deadline.after(0.5))
        broker.heal()
        with pytest.raises(RefusedError, match="the transaction of uncertain has a batch that failed: abort it"):
            await producer.end(cluster.deadline(), is_committed=True)
        await producer.end(cluster.deadline(), is_committed=False)
        await producer.send("uncertain", {0: batch(b"b")}, cluster.deadline())
        await producer.end(cluster.deadline(), is_committed=True)
        readable = await list_offsets(cluster, "uncertain", {0: LATEST}, cluster.deadline(), is_committed_only=True)
        assert (
            readable[0].offset == (await list_offsets(cluster, "uncertain", {0: LATEST}, cluster.deadline()))[0].offset
        )


@pytest.mark.parametrize("name", [None, "cancelled"])
async def test_a_cancelled_send_costs_no_later_one(broker: EmbeddedBroker, name: str | None) -> None:
    async with cluster_of(broker) as cluster:
        topic = f"cancelled-{name}"
        broker.create_topic(topic)
        deadline = cluster.deadline()
        if name is None:
            producer = await BatchProducer.idempotent(cluster, deadline)
        else:
            producer = await BatchProducer.transactional(cluster, name, 30_000, deadline)
        await producer.send(topic, {0: batch(b"a")}, deadline)
        broker.delay("Produce", 0.3)
        sending = asyncio.create_task(producer.send(topic, {0: batch(b"b")}, deadline))
        await asyncio.sleep(0.1)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        if name is not None:
            await producer.end(deadline, is_committed=False)
        await producer.send(topic, {0: batch(b"c")}, deadline)
        if name is not None:
            await producer.end(deadline, is_committed=True)
        await asyncio.sleep(0.4)
        seen = values(broker, topic)
        assert seen.count(b"c") == 1
        assert seen.count(b"b") <= 1


async def test_two_sends_to_different_partitions_wait_side_by_side(broker: EmbeddedBroker) -> None:
    async with cluster_of(broker) as cluster:
        broker.create_topic("sides", partitions=2)
        producer = await BatchProducer.idempotent(cluster, cluster.deadline())
        await asyncio.gather(
            *(producer.send("sides", {number: batch(b"x")}, cluster.deadline()) for number in (0, 1)),
        )
        assert len(values(broker, "sides")) == 2


async def test_a_partition_that_is_not_there_is_named_with_those_that_are(broker: EmbeddedBroker) -> None:
    async with cluster_of(broker) as cluster:
        broker.create_topic("narrow", partitions=2)
        with pytest.raises(RefusedError, match="topic narrow has no partition 7: it has 2, from 0 to 1"):
            await produce(cluster, "narrow", {7: batch(b"a")}, -1, Deadline.after(1.0))


async def test_a_silent_leader_costs_no_longer_than_the_deadline(broker: EmbeddedBroker) -> None:
    async with cluster_of(broker) as cluster:
        broker.create_topic("silent")
        producer = BatchProducer(cluster)
        await producer.send("silent", {0: batch(b"a")}, cluster.deadline())
        broker.delay("Produce", 30.0)
        began = asyncio.get_running_loop().time()
        with pytest.raises(OutOfTimeError):
            await producer.send("silent", {0: batch(b"b")}, Deadline.after(0.5))
        assert asyncio.get_running_loop().time() - began < 20.0


async def test_without_acknowledgements_nothing_is_returned(broker: EmbeddedBroker) -> None:
    async with cluster_of(broker) as cluster:
        broker.create_topic("plain")
        assert await produce(cluster, "plain", {0: batch(b"a")}, 0, cluster.deadline()) == {}
        assert await produce(cluster, "plain", {0: batch(b"b")}, 1, cluster.deadline()) == {0: 1}
