"""Queue consumers on a simulated cluster under seeded faults: brokers are killed, lose power and are cut off, and so
is a consumer. Every job is accepted; one whose acceptance is durable never comes again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from contextvars import copy_context
from random import Random
from typing import Any

import pytest
from tests.sim.stage import TOPIC, Stage, play
from tests.sim.test_client_under_faults import cause_faults, client_settings
from verify.clusters.machine import wall_ms

from qanat.client import AsyncProducer, AsyncQueueConsumer, IoLoop, LockLostError, Receipt, Record
from qanat.connection.cluster import Cluster
from qanat.connection.consuming import member_ids
from qanat.model.errors import QanatError
from qanat.testing.simulation.loop import OWNER, Owner
from qanat.wire.kafka.messages import incremental_alter_configs as altering
from qanat.wire.kafka.registry import ApiKey

GROUP = "workers"
_GROUP_RESOURCE = 32
_PATIENCE_S = 180.0
_LOCK_S = 30.0


async def _configure(stage: Stage) -> None:
    """The group begins with the first record, and no fault may use up a job's deliveries."""
    values = {"share.auto.offset.reset": "earliest", "share.delivery.count.limit": "10"}
    rows = [altering.AlterableConfig(name, 0, value) for name, value in values.items()]
    resource = altering.AlterConfigsResource(_GROUP_RESOURCE, GROUP, rows)
    async with Cluster(stage.bootstrap, "setter", 30.0) as cluster:
        request = altering.IncrementalAlterConfigsRequest([resource])
        response = await cluster.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, request, cluster.deadline())
        assert [row.error_code for row in response.responses] == [0]


class Jobs:
    """What was written, handed out and accepted."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.is_over = False
        self.sent: list[tuple[bytes, Receipt]] = []
        self.deliveries: Counter[bytes] = Counter()
        self.accepted: set[bytes] = set()
        """Whose acceptance a broker has confirmed."""
        self.uncertain: set[bytes] = set()
        """Whose acceptance was said: a broker may have it although the answer was lost."""
        self.again: list[bytes] = []
        """Handed out after that."""

    async def produce(self) -> None:
        async with AsyncProducer(
            client_settings(self._stage), delivery_timeout_ms=60_000, io=IoLoop.here()
        ) as producer:
            while not self.is_over:
                value = b"%d" % len(self.sent)
                self.sent.append((value, await producer.send(TOPIC, value, timestamp_ms=wall_ms())))
                await asyncio.sleep(0.05)
            await producer.flush()

    async def work(self, random: Random) -> None:
        """Handle jobs until the process is killed, or for ever."""
        consumer = AsyncQueueConsumer(client_settings(self._stage), TOPIC, group=GROUP, io=IoLoop.here())
        clock = asyncio.get_running_loop().time
        polled_s = clock()
        while True:
            try:
                records = await consumer.poll(random.randint(1, 20), timeout_s=0.2)
            except QanatError as fault:  # The cluster is away; the next poll tries again.
                if clock() > polled_s + _PATIENCE_S / 2:
                    raise AssertionError("a consumer does not recover") from fault
                await asyncio.sleep(0.2)
                continue
            polled_s = clock()
            await self._handle(consumer, records, random)

    async def _handle(self, consumer: AsyncQueueConsumer, records: list[Record[Any, Any]], random: Random) -> None:
        values = [bytes(record.value) for record in records]
        self.deliveries.update(values)
        self.again += [value for value in values if value in self.accepted]
        await asyncio.sleep(random.uniform(0, 0.1))
        said: set[bytes] = set()
        for record in records:
            with contextlib.suppress(LockLostError):  # It comes again.
                await consumer.acknowledge(record)
                said.add(bytes(record.value))
        self.uncertain |= said
        with contextlib.suppress(QanatError):  # Some came too late, and nothing says which.
            await consumer.flush(30)
            self.accepted |= said

    async def until_all_are_done(self) -> None:
        """Wait until every job was accepted; jobs that were killed in hand wait for the end of their lock."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + _PATIENCE_S
        while missing := {value for value, _ in self.sent} - self.accepted - self.uncertain:
            assert loop.time() < until_s, (
                f"lost: {sorted(missing)[:9]}, delivered {self.deliveries[min(missing)]} times"
            )
            await asyncio.sleep(0.5)
        await asyncio.sleep(_LOCK_S + 5)  # What is still to come again comes now.


class Workers:
    """Two processes with a consumer each; kills one of them now and then, and starts another."""

    def __init__(self, stage: Stage, jobs: Jobs, random: Random) -> None:
        self._stage = stage
        self._jobs = jobs
        self._random = random
        self._started = 0
        self.killed = 0
        self._running: list[tuple[Owner, asyncio.Task[None]]] = []

    def start_one(self) -> None:
        self._started += 1
        owner, context = Owner(f"worker-{self._started}"), copy_context()
        context.run(OWNER.set, owner)
        work = self._jobs.work(Random(self._random.random()))
        self._running.append((owner, asyncio.get_running_loop().create_task(work, context=context)))

    def kill_one(self) -> None:
        owner, task = self._running.pop(self._random.randrange(len(self._running)))
        assert not task.done(), task.exception()
        self._stage.loop.kill(owner)
        self._stage.network.forget(owner, is_silent=False)
        self.killed += 1

    async def come_and_go(self) -> None:
        self.start_one()
        while True:
            self.start_one()
            await asyncio.sleep(self._random.uniform(1, 8))
            self.kill_one()


@pytest.mark.long
@pytest.mark.parametrize("seed", [*(pytest.param(seed, marks=pytest.mark.data) for seed in range(2)), *range(2, 6)])
def test_every_job_is_accepted_and_none_comes_after_that(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(member_ids, "random_bytes", Random(f"member ids {seed}").randbytes)

    async def script(stage: Stage) -> None:
        await _configure(stage)
        jobs = Jobs(stage)
        workers = Workers(stage, jobs, Random(f"workers {seed}"))
        producing = asyncio.create_task(jobs.produce())
        killing = asyncio.create_task(workers.come_and_go())
        await cause_faults(stage, Random(f"queue {seed}"))
        jobs.is_over = True
        await producing
        killing.cancel()
        for _, receipt in jobs.sent:
            await receipt
        await jobs.until_all_are_done()

        assert len(jobs.sent) > 100
        assert workers.killed > 0
        assert jobs.again == [], "an accepted job comes again"
        assert {value for value, _ in jobs.sent} == set(jobs.deliveries)
        assert len(jobs.accepted) > 0.9 * len(jobs.sent), "hardly any acceptance is confirmed"

    play(script)
