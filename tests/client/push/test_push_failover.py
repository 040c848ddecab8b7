"""Push clients of three real brokers whose leader is killed with -9: all go on by themselves, nothing is lost."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.app.processes import RunningBroker, running_broker
from tests.servers.http.test_cluster import free_port
from tests.servers.push.push_peer import PushPeer

from qanat.client import AsyncPushConsumer, AsyncPushProducer, Metadata, PushConsumer
from qanat.connection.cluster import Cluster, parse_bootstrap
from qanat.wire.kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest
from qanat.wire.kafka.registry import ApiKey
from qanat.wire.push.control import Heartbeat

PARTITIONS, RECORDS = 3, 600
WAIT_S = 90.0

Place = tuple[int, int]


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[list[RunningBroker]]:
    with contextlib.ExitStack() as running:
        made = []
        for number in range(3):
            folder = tmp_path / str(number)
            folder.mkdir()
            flags = ("-X", f"inter.broker.port={free_port()}", "-X", "http.port=0")
            line = ("--port", "0", "--node-id", str(number), "--data-dir", str(tmp_path / "data"), *flags)
            made.append(running.enter_context(running_broker(folder, *line)))
        yield made


async def leader_of_the_first(address: str) -> int:
    async with Cluster(parse_bootstrap(address)) as client:
        return (await client.topic("prices", client.deadline())).leaders[0]


async def create(address: str) -> None:
    async with Cluster(parse_bootstrap(address)) as client:
        request = CreateTopicsRequest([CreatableTopic("prices", PARTITIONS, 3)], 20_000)
        answer = await client.call_controller(ApiKey.CREATE_TOPICS, request)
        assert [one.error_code for one in answer.topics] == [0]


def collect(servers: str, group: str, seen: dict[Place, bytes], is_complete: threading.Event) -> None:
    """The sync consumer, on a thread of its own."""
    with PushConsumer(servers, "prices", group_id=group) as consumer:
        while len(seen) < RECORDS:
            record = consumer.next(WAIT_S)
            seen[record.partition, record.offset] = record.value or b""
        consumer.done()
    is_complete.set()


async def collect_here(servers: str, group: str, seen: dict[Place, bytes], repeated: list[Place]) -> None:
    async with AsyncPushConsumer(servers, "prices", group_id=group) as consumer:
        while len(seen) < RECORDS:
            record = await consumer.next()
            place = record.partition, record.offset
            repeated += [place] if place in seen else []
            seen[place] = record.value or b""


@pytest.mark.long
@pytest.mark.data
async def test_a_leader_that_is_killed_costs_neither_records_nor_clients(brokers: list[RunningBroker]) -> None:
    addresses = [one.address for one in brokers]
    await create(addresses[0])
    killed = await leader_of_the_first(addresses[0])
    # One consumer is connected to the leader that dies, the others and the producer to brokers that stay.
    dying = [addresses[killed], *(one for one in addresses if one != addresses[killed])]
    staying = [*dying[1:], dying[0]]
    in_log: dict[Place, bytes] = {}
    in_all: dict[Place, bytes] = {}
    on_thread: dict[Place, bytes] = {}
    again: list[Place] = []
    again_in_all: list[Place] = []
    is_complete = threading.Event()
    thread = threading.Thread(target=collect, args=(",".join(staying), "sync", on_thread, is_complete), daemon=True)
    thread.start()
    async with asyncio.timeout(WAIT_S), AsyncPushProducer(",".join(staying)) as producer:
        reading = [
            asyncio.create_task(collect_here(",".join(dying), "async", in_log, again)),
            asyncio.create_task(collect_here(",".join(dying), "", in_all, again_in_all)),
        ]
        sent: list[asyncio.Future[Metadata]] = []
        for number in range(RECORDS):
            if number == RECORDS // 3:
                await asyncio.gather(*sent)
                brokers[killed].process.send_signal(signal.SIGKILL)
            sent.append(await producer.send("prices", b"%d" % number, partition=number % PARTITIONS))
            await asyncio.sleep(0.002)
        places = [await one for one in sent]
        await asyncio.gather(*reading)
        assert await asyncio.to_thread(is_complete.wait, WAIT_S)

        expected = {(one.partition, one.offset): b"%d" % number for number, one in enumerate(places)}
        assert len(expected) == RECORDS, "each has a place of its own: it was written once"
        for found in (in_log, in_all, on_thread):
            assert found == expected
        assert not again_in_all, "a subscriber without a group resumes exactly where it was"
        async with PushPeer(staying[0]) as operator:
            await operator.ask(Heartbeat(1, ask="consumers"))
