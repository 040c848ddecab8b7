"""Lock renewal (KIP-1222) on Qanat and on Apache Kafka 4.2: work that outlasts its lock several times is done once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from tests.client.app.app_threads import Seen, running
from tests.client.queue.queues import Queue, take
from tests.client.queue.test_on_kafka import KafkaQueue, can_renew
from tests.fetching import run_began_at
from tools.kafka_broker import KafkaBroker
from tools.kafka_jars import JarsUnavailableError, have_later_jars

from qanat.client import App, Context, QueueConsumer, Verdict
from qanat.testing import EmbeddedBroker

LOCK_S = 1.5
SETTINGS = {
    "group.share.min.record.lock.duration.ms": 1000,
    "group.share.record.lock.duration.ms": int(LOCK_S * 1000),
}


class Job(msgspec.Struct):
    id: int


@pytest.fixture(scope="module", params=["qanat", pytest.param("kafka", marks=pytest.mark.long)])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A broker of either kind; its `bootstrap_servers` is all that is used."""
    if request.param == "qanat":
        with EmbeddedBroker(settings=SETTINGS) as broker:
            yield broker
        return
    try:
        jars = have_later_jars(run_began_at())
    except JarsUnavailableError as error:
        pytest.skip(f"Kafka does not judge here: {error}")
    settings = "".join(f"{name}={value}\n" for name, value in SETTINGS.items())
    kafka = KafkaBroker(jars, Path(tmp_path_factory.mktemp("kafka")), settings, features=("share.version=1",))
    with kafka.running():
        yield SimpleNamespace(bootstrap_servers=kafka.address)


def queue_on(server: Any, topic: str, *values: bytes) -> Queue:
    queue = KafkaQueue.on(server.bootstrap_servers, topic)
    queue.produce(*values)
    return queue


async def test_brokers_of_this_version_renew_locks(server: Any) -> None:
    assert await can_renew(server.bootstrap_servers)


async def test_a_record_in_hand_for_three_times_its_lock_is_delivered_once(server: Any) -> None:
    queue = queue_on(server, "held", *(b"%d" % number for number in range(10)))
    async with queue.consumer() as worker:
        held = await take(worker, 10)
        # For so long another consumer asks for what is locked.
        async with queue.consumer() as idle:
            assert await idle.poll(10, timeout_s=3 * LOCK_S) == []
        for record in held:
            await worker.acknowledge(record)
        await worker.flush()
    assert sorted(int(record.value) for record in held) == list(range(10))
    assert {record.delivery_count for record in held} == {1}
    async with queue.consumer() as another:
        assert await another.poll(1, timeout_s=LOCK_S) == []


async def test_a_lock_that_is_renewed_by_hand_lasts(server: Any) -> None:
    queue = queue_on(server, "by-hand", b"0", b"1")
    async with queue.consumer(lock="manual") as worker:
        held = await take(worker, 2)
        async with queue.consumer(lock="manual") as idle:
            for _ in range(4):
                for record in held:
                    await worker.acknowledge(record, Verdict.RENEW)
                await worker.flush()
                assert await idle.poll(2, timeout_s=LOCK_S / 2) == []
        for record in held:
            await worker.acknowledge(record)
        await worker.flush()


def test_a_consumer_of_threads_renews_while_user_code_blocks(server: Any) -> None:
    queue = queue_on(server, "blocked", b"0")
    with QueueConsumer(server.bootstrap_servers, "blocked", group=queue.group) as worker:
        (record,) = worker.poll(1, 60)
        with QueueConsumer(server.bootstrap_servers, "blocked", group=queue.group) as idle:
            assert idle.poll(1, 3 * LOCK_S) == [], "this call blocks the thread of the worker"
        worker.acknowledge(record)
        worker.flush()


@pytest.mark.parametrize("is_async", [True, False])
def test_a_handler_that_outlasts_its_lock_runs_once(server: Any, is_async: bool) -> None:
    topic = f"handled-{is_async}".lower()
    queue = queue_on(server, topic, b'{"id":1}', b'{"id":2}')
    app, seen = App(server.bootstrap_servers), Seen()
    if is_async:

        @app.queue(topic, group=queue.group, concurrency=2)
        async def work(job: Job, ctx: Context) -> None:
            seen.add(("begin", job.id, ctx.attempt))
            await asyncio.sleep(3 * LOCK_S)
            seen.add(("end", job.id, ctx.attempt))

    else:
        import time

        @app.queue(topic, group=queue.group, concurrency=2)
        def work_in_a_thread(job: Job, ctx: Context) -> None:
            seen.add(("begin", job.id, ctx.attempt))
            time.sleep(3 * LOCK_S)
            seen.add(("end", job.id, ctx.attempt))

    with running(app):
        seen.wait_for(4)
    assert sorted(seen) == [("begin", 1, 1), ("begin", 2, 1), ("end", 1, 1), ("end", 2, 1)]
