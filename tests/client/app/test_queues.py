"""Queues of an app on a real broker: each record once, retries, dead letters, lost locks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import cast

import msgspec
import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from tests.client.app.app_threads import Seen, running
from tests.client.app.app_threads import produce as produce_plainly

from qanat.client.app.app import App
from qanat.client.app.clients import AppClients
from qanat.client.app.context import Context
from qanat.client.app.handlers import QueueHandler, Reaction
from qanat.client.app.retry import Retry
from qanat.client.io_loop import IoLoop
from qanat.client.queue.consumers import AsyncQueueConsumer
from qanat.testing import EmbeddedBroker

SETTINGS = {"group.share.min.record.lock.duration.ms": 1000, "group.share.record.lock.duration.ms": 1500}


class Job(msgspec.Struct):
    id: int


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(settings=SETTINGS) as found:
        yield found


def produce(broker: EmbeddedBroker, topic: str, *values: bytes, partitions: int = 2) -> None:
    for group in ("g", "render", "index"):
        entry = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=[entry])
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        for outcome in admin.incremental_alter_configs([resource]).values():
            outcome.result(60)
    produce_plainly(broker, topic, *values, partitions=partitions)


def test_every_job_is_done_once_by_sync_and_async_workers(broker: EmbeddedBroker) -> None:
    app, seen = App(broker.bootstrap_servers), Seen()

    @app.queue("jobs", group="render", concurrency=4)
    def render(job: Job) -> None:
        seen.add(job.id)

    @app.queue("jobs", group="index", concurrency=4)
    async def index(job: Job, ctx: Context) -> None:
        await asyncio.sleep(0)
        seen.add(100 + job.id)

    produce(broker, "jobs", *(b'{"id":%d}' % i for i in range(50)))
    with running(app):
        seen.wait_for(100)
    assert sorted(seen) == [*range(50), *range(100, 150)]


def test_a_failed_job_is_delivered_again_and_given_up_as_a_dead_letter(broker: EmbeddedBroker) -> None:
    app, tries = App(broker.bootstrap_servers), Seen()

    @app.queue("flaky", group="g", retry=Retry(2, backoff="10ms"), dead_letter="flaky.dlq")
    async def work(job: Job, ctx: Context) -> None:
        tries.add((job.id, ctx.attempt, ctx.fencing_token))
        raise RuntimeError("no")

    produce(broker, "flaky", b'{"id":1}', b"no json")
    with running(app):
        letters = broker.wait_for("flaky.dlq", 2, 60)
    assert tries == [(1, 1, 1), (1, 2, 2)]
    reasons = {letter.value: dict(letter.headers)["__dlq.errors.message"] for letter in letters}
    assert reasons[b'{"id":1}'] == b"RuntimeError: no"
    assert b"SerializationError: flaky: " in (reasons[b"no json"] or b"")


def test_a_job_that_outlasts_its_lock_several_times_is_done_once(broker: EmbeddedBroker) -> None:
    app, seen = App(broker.bootstrap_servers), Seen()

    @app.queue("long", group="g")
    async def work(job: Job, ctx: Context) -> None:
        seen.add(("begin", ctx.attempt))
        await asyncio.sleep(5)
        seen.add(("end", ctx.attempt))

    produce(broker, "long", b'{"id":1}')
    with running(app):
        seen.wait_for(2)
    assert seen == [("begin", 1), ("end", 1)]


def test_a_zombie_after_a_lost_lock_is_cancelled_and_its_late_acknowledgement_refused(broker: EmbeddedBroker) -> None:
    app, seen = App(broker.bootstrap_servers), Seen()

    @app.queue("zombie", group="g", lock="manual", concurrency=2)
    async def work(job: Job, ctx: Context) -> None:
        seen.add(("begin", ctx.fencing_token))
        if ctx.attempt == 1:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                seen.add(("cancelled", ctx.is_cancelled))
                raise
        seen.add(("end", ctx.fencing_token))

    produce(broker, "zombie", b'{"id":1}')
    with running(app):
        seen.wait_for(4)
        assert 'qanat_app_locks_lost_total{handler="work",group="g"} 1' in app.metrics()
    assert sorted(map(str, seen)) == ["('begin', 1)", "('begin', 2)", "('cancelled', True)", "('end', 2)"]


def test_an_error_handler_decides_about_jobs_and_a_pause_takes_no_more_until_the_app_is_resumed(
    broker: EmbeddedBroker,
) -> None:
    app, seen = App(broker.bootstrap_servers), Seen()
    is_broken = True

    @app.queue("paused", group="g", retry="PAUSE_ON_ERROR")
    async def work(job: Job, ctx: Context) -> None:
        seen.add(job.id)
        if is_broken:
            raise LookupError("skip") if job.id == 1 else RuntimeError("no")

    @app.on_error
    def failed(fault: Exception, ctx: Context) -> Reaction | None:
        return "skip" if isinstance(fault, LookupError) else None

    produce(broker, "paused", b'{"id":1}', b'{"id":2}', b'{"id":3}', partitions=1)
    with running(app):
        seen.wait_for(2)
        deadline = time.monotonic() + 60
        while app.health() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert "handler work of paused is paused at paused-0: offset 1: RuntimeError: no" in app.health().reason
        time.sleep(1)
        assert seen == [1, 2]
        is_broken = False
        app.resume("work")
        seen.wait_for(4)
        assert sorted(seen) == [1, 2, 2, 3]
        assert app.health()


def test_the_lock_of_a_job_is_renewed_for_as_long_as_its_handler_may_take() -> None:
    app = App("x:1")

    @app.queue("jobs", group="g", timeout="2h", retry=Retry(2, backoff="1s..5m"))
    async def work(job: Job) -> None: ...

    @app.queue("quick", group="g")
    async def quick(job: Job) -> None: ...

    io = IoLoop.start("test")
    try:
        clients = AppClients(app, io)
        renewed_s = [
            cast(
                AsyncQueueConsumer, clients.queue_consumer(cast(QueueHandler, one), lambda *_: None)
            ).settings.timeout_s
            for one in app.handlers
        ]
    finally:
        io.close()
    assert renewed_s[0] > 2 * 3600 + 300, "the pause of its retry counts: the record is held meanwhile"
    assert renewed_s[1] == 3600
