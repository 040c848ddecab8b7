"""Push in a cluster of real processes: any broker serves every partition, and a killed one loses nothing."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.app.processes import RunningBroker, running_broker
from tests.client.push.test_push_refresh import ask
from tests.servers.http.test_cluster import free_port
from tests.servers.push.push_peer import PushPeer, control

from qanat.client import AsyncPushConsumer, Refresh
from qanat.connection.cluster import Cluster, parse_bootstrap
from qanat.wire.kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest
from qanat.wire.kafka.registry import ApiKey
from qanat.wire.push.control import Ack, Heartbeat, Subscribe
from qanat.wire.push.data import PushedRecord, encode_record
from qanat.wire.push.frames import FrameType


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[list[RunningBroker]]:
    with contextlib.ExitStack() as running:
        brokers = []
        for number in range(2):
            folder = tmp_path / str(number)
            folder.mkdir()
            flags = ("-X", f"inter.broker.port={free_port()}", "-X", "http.port=0")
            line = ("--port", "0", "--node-id", str(number), "--data-dir", str(tmp_path / "data"), *flags)
            brokers.append(running.enter_context(running_broker(folder, *line)))
        yield brokers


def address(broker: RunningBroker) -> str:
    return broker.address


async def create(broker: RunningBroker, partitions: int, replicas: int) -> None:
    async with Cluster(parse_bootstrap(address(broker))) as client:
        topic = CreatableTopic("prices", partitions, replicas)
        answer = await client.call_controller(ApiKey.CREATE_TOPICS, CreateTopicsRequest([topic], 10_000))
        assert [one.error_code for one in answer.topics] == [0]


async def write(broker: RunningBroker, count: int, partitions: int) -> None:
    async with PushPeer(address(broker)) as producer:
        await producer.ask(Heartbeat(1, topics=["prices"]))
        for number in range(count):
            record = PushedRecord(0, number % partitions, -1, -1, 0, None, b"%d" % number)
            producer.send(FrameType.DATA, encode_record(record))
        for _ in range(count):
            assert not control(Ack, await producer.expect(FrameType.ACK)).error


async def test_one_broker_pushes_what_the_other_leads(cluster: list[RunningBroker]) -> None:
    await create(cluster[0], partitions=2, replicas=1)
    for subscribe in (Subscribe(1, topics=["prices"]), Subscribe(1, topics=["prices"], group="g")):
        async with PushPeer(address(cluster[0])) as consumer:
            await consumer.ask(subscribe)
            await write(cluster[1], 20, partitions=2)
            seen: set[tuple[int, bytes | None]] = set()
            while len(seen) < 20:
                frame, record = await consumer.record()
                seen.add((record.partition, record.value))
                consumer.acknowledge(frame)
        assert {partition for partition, _ in seen} == {0, 1}


async def test_a_killed_leader_loses_nothing_that_was_acknowledged(cluster: list[RunningBroker]) -> None:
    await create(cluster[0], partitions=2, replicas=2)
    await write(cluster[1], 20, partitions=2)
    async with PushPeer(address(cluster[0])) as consumer:
        await consumer.ask(Subscribe(1, topics=["prices"]))
        first = [await consumer.record() for _ in range(5)]
        consumer.acknowledge(first[-1][0])
        cluster[1].process.send_signal(signal.SIGKILL)
        await write(cluster[0], 10, partitions=2)

        offsets: dict[int, list[int]] = {0: [], 1: []}
        for _, record in first:
            offsets[record.partition].append(record.offset)
        while sum(map(len, offsets.values())) < 30:
            frame, record = await consumer.record()
            offsets[record.partition].append(record.offset)
            consumer.acknowledge(frame)

    assert offsets == {0: list(range(15)), 1: list(range(15))}, "in order, without gaps or repetitions"


async def test_a_refresh_replays_what_another_broker_leads(cluster: list[RunningBroker]) -> None:
    await create(cluster[0], partitions=2, replicas=1)
    await write(cluster[1], 20, partitions=2)
    events: list[str] = []
    switched = asyncio.Event()

    def on_ready(refresh: Refresh) -> None:
        events.append("ready")
        switched.set()

    consumer = AsyncPushConsumer(
        address(cluster[0]),
        "prices",
        group_id="g",
        on_reset=lambda refresh: events.append("reset"),
        on_ready=on_ready,
    )
    async with consumer, asyncio.timeout(60):
        first = sorted([(await place(consumer)) for _ in range(20)])
        await ask(address(cluster[1]), "refresh")
        again = sorted([(await place(consumer)) for _ in range(20)])
        reading = asyncio.create_task(place(consumer))
        await switched.wait()
        await write(cluster[0], 1, partitions=2)
        late = await reading

    assert [one[:2] for one in first] == [one[:2] for one in again] == [(n, o) for n in range(2) for o in range(10)]
    assert {one[2] for one in first} == {False}
    assert {one[2] for one in again} == {True}
    assert late == (0, 10, False)
    assert events == ["reset", "ready"]


async def place(consumer: AsyncPushConsumer) -> tuple[int, int, bool]:
    """Partition and offset of the next record, and whether it belongs to a refresh."""
    record = await consumer.next()
    return record.partition, record.offset, consumer.refresh_of(record) is not None
