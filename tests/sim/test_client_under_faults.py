"""The Python client on a simulated cluster under seeded faults: brokers are killed, lose power and are cut off.

A producer, transactions and a group of consumers work meanwhile. What was acknowledged is there, once and in order.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest
from tests.sim.stage import AT, TOPIC, Stage, play
from verify.clusters.machine import wall_ms

from qanat.client.consumer.async_consumer import AsyncConsumer
from qanat.client.errors import ClientError, TransactionError
from qanat.client.io_loop import IoLoop
from qanat.client.producer.async_producer import AsyncProducer
from qanat.client.records import Receipt

FAULTS = 6
Fault = Callable[[Stage, Random], Coroutine[Any, Any, None]]


def client_settings(stage: Stage) -> dict[str, object]:
    servers = [f"{host}:{port}" for host, port in stage.bootstrap]
    return {"bootstrap.servers": servers, "request.timeout.ms": 5000}


async def _kill(stage: Stage, random: Random) -> None:
    machine = random.choice(stage.machines)
    machine.kill()
    await asyncio.sleep(random.uniform(0.5, 5))
    await machine.start()


async def _lose_power(stage: Stage, random: Random) -> None:
    machine = stage.leader
    machine.lose_power("drop_all")
    await asyncio.sleep(random.uniform(0.5, 5))
    await machine.start()


async def _cut_off(stage: Stage, random: Random) -> None:
    machine = random.choice(stage.machines)
    ways = stage.network.cut_off(machine.host, [one.host for one in stage.machines if one is not machine])
    await asyncio.sleep(random.uniform(0.5, 5))
    stage.network.heal(ways)


async def _restart(stage: Stage, random: Random) -> None:
    machine = random.choice(stage.machines)
    await machine.stop()
    await machine.start()


async def _reset(stage: Stage, random: Random) -> None:
    stage.network.reset_some(random.uniform(0.2, 1.0))


_FAULTS: tuple[Fault, ...] = (_kill, _lose_power, _cut_off, _restart, _reset)


async def cause_faults(stage: Stage, random: Random) -> None:
    """One fault after another; each is over, and the brokers agree again, before the next."""
    for _ in range(FAULTS):
        await asyncio.sleep(random.uniform(0.5, 2))
        await random.choice(_FAULTS)(stage, random)
        await stage.whole_again()


class Work:
    """What the clients sent, and what of it was acknowledged."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.is_over = False
        self.end_offset: int | None = None
        """The end of the log, once all is written."""
        self.read_until_s = 0.0
        self.sent: list[tuple[bytes, Receipt]] = []
        self.committed: list[list[bytes]] = []
        self.uncertain: set[bytes] = set()
        self.handled: list[bytes] = []

    async def produce(self) -> None:
        async with AsyncProducer(
            client_settings(self._stage), delivery_timeout_ms=60_000, io=IoLoop.here()
        ) as producer:
            while not self.is_over:
                value = b"p%d" % len(self.sent)
                self.sent.append((value, await producer.send(TOPIC, value, timestamp_ms=wall_ms())))
                await asyncio.sleep(0.02)
            await producer.flush()

    async def transact(self) -> None:
        async with AsyncProducer(client_settings(self._stage), transactional_id="t", io=IoLoop.here()) as producer:
            number = 0
            while not self.is_over:
                values = [b"t%d-%d" % (number, part) for part in range(3)]
                number += 1
                try:
                    async with producer.transaction():
                        for value in values:
                            await producer.send(TOPIC, value, timestamp_ms=wall_ms())
                    self.committed.append(values)
                except TransactionError as fault:
                    if fault.may_be_committed:
                        self.uncertain |= set(values)
                await asyncio.sleep(0.1)

    async def consume(self) -> None:
        settings = {**client_settings(self._stage), "group.id": "g", "auto.offset.reset": "earliest"}
        settings |= {"isolation.level": "read_committed", "enable.auto.commit": False}
        async with AsyncConsumer(settings, TOPIC, io=IoLoop.here()) as consumer:
            while not self._has_read_all(consumer):
                records = await consumer.poll(timeout_s=0.5)
                self.handled += [bytes(record.value or b"") for record in records]
                try:
                    await consumer.commit()
                except ClientError:  # The group has moved on: the records come again.
                    continue

    def _has_read_all(self, consumer: AsyncConsumer) -> bool:
        """Whether everything is written and read; a consumer that stands still for a minute has failed."""
        if self.end_offset is None:
            return False
        now_s = asyncio.get_running_loop().time()
        self.read_until_s = self.read_until_s or now_s + 60
        position = consumer.position(AT) if AT in consumer.assignment else 0
        assert now_s < self.read_until_s, f"at {position} of {self.end_offset}: {consumer.health}"
        return position >= self.end_offset


@pytest.mark.long
@pytest.mark.parametrize("seed", [*(pytest.param(seed, marks=pytest.mark.data) for seed in range(3)), *range(3, 9)])
def test_what_is_acknowledged_is_there_once_and_in_order(seed: int) -> None:
    async def script(stage: Stage) -> None:
        work = Work(stage)
        writing = [asyncio.create_task(one()) for one in (work.produce, work.transact)]
        reading = asyncio.create_task(work.consume())
        await cause_faults(stage, Random(f"client {seed}"))
        await asyncio.sleep(1)
        work.is_over = True
        await asyncio.gather(*writing)
        work.end_offset = 1 + max([(await receipt).offset for _, receipt in work.sent])
        await reading

        there = Counter(work.handled)
        assert len(work.sent) > 200
        for value, receipt in work.sent:
            await receipt
            assert value in there, f"{value!r} is lost"
        assert work.committed, "no transaction succeeds"
        lost = [value for values in work.committed for value in values if value not in there]
        assert lost == []
        certain = {value for values in work.committed for value in values} | {value for value, _ in work.sent}
        aborted = [value for value in there if value not in certain | work.uncertain]
        assert aborted == [], "an aborted record is read"
        # The log itself, from its beginning: once, and in order.
        stored = await _read_all(stage)
        produced = [value for value in stored if value.startswith(b"p")]
        assert produced == [value for value, _ in work.sent]
        assert max(Counter(stored).values()) == 1

    play(script)


async def _read_all(stage: Stage) -> list[bytes]:
    settings = {**client_settings(stage), "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
    found: list[bytes] = []
    async with AsyncConsumer(settings, TOPIC, io=IoLoop.here()) as consumer:
        while some := await consumer.poll(timeout_s=10):
            found += [bytes(record.value or b"") for record in some]
    return found
