"""Clients on three brokers, each of which is killed with -9 once: every leader and every coordinator fails over."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal

import pytest
from tests.client.judge import read_all
from tools.brokers import BrokerProcesses

from qanat.client import AsyncConsumer, AsyncProducer, AsyncQueueConsumer, LockLostError
from qanat.client.errors import TransactionError

pytestmark = pytest.mark.long

SETTINGS = {
    "broker.session.timeout.ms": "3000",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    "group.share.record.lock.duration.ms": "3000",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.share.heartbeat.interval.ms": "500",
}
PARTITIONS = 3
STEP = 600
"""Records before each kill, while a broker is dead, and after it has come back."""


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcesses]:
    with BrokerProcesses(Path(tmp_path_factory.mktemp("brokers")), settings=SETTINGS) as found:
        yield found


async def kills(brokers: BrokerProcesses) -> AsyncIterator[int]:
    """Numbers the steps of the work: before and after the kill of each broker, and at the end."""
    step = 0
    for node_id in range(3):
        yield step
        brokers.kill(node_id)
        yield step + 1
        brokers.start(node_id)
        await asyncio.to_thread(brokers.until, _is_whole, "every replica is in sync")
        step += 2
    yield step


STEPS = 7


def _is_whole(seen: object) -> bool:
    topics = seen.topics.values()  # type: ignore[attr-defined]
    rows = [row for topic in topics for row in topic.partitions.values()]
    return len(seen.brokers) == 3 and all(row.leader >= 0 and len(row.isrs) == 3 for row in rows)  # type: ignore[attr-defined]


def numbers(step: int, count: int = STEP) -> range:
    return range(step * count, (step + 1) * count)


async def write(brokers: BrokerProcesses, topic: str, count: int) -> None:
    async with AsyncProducer(brokers.bootstrap) as producer:
        for number in range(count):
            await producer.send(topic, b"%d" % number, partition=number % PARTITIONS)


async def test_an_idempotent_producer_loses_and_doubles_nothing_and_keeps_the_order(brokers: BrokerProcesses) -> None:
    brokers.create("sent", PARTITIONS)
    async with AsyncProducer(brokers.bootstrap, batch_size=2000) as producer:
        receipts = []
        async for step in kills(brokers):
            # What was sent before a kill is on its way when it comes.
            receipts += [
                await producer.send("sent", b"%d" % number, partition=number % PARTITIONS) for number in numbers(step)
            ]
            if step % 2:
                for receipt in receipts:
                    await receipt
    found = await asyncio.to_thread(read_all, brokers.bootstrap, "sent", STEPS * STEP)
    for partition in range(PARTITIONS):
        values = [int(one.value()) for one in found if one.partition() == partition]
        assert values == list(range(partition, STEPS * STEP, PARTITIONS))


async def test_transactions_are_whole_and_written_once(brokers: BrokerProcesses) -> None:
    brokers.create("transferred", PARTITIONS)
    size, per_step = 5, 8
    async with AsyncProducer(brokers.bootstrap, transactional_id="transfers") as producer:

        async def transfer(number: int) -> None:
            """One transaction, until it is committed: one that failed was aborted, and is written again."""
            for _ in range(20):
                with suppress(TransactionError):
                    async with producer.transaction():
                        for part in range(size):
                            value = b"%d" % (number * size + part)
                            await producer.send("transferred", value, partition=part % PARTITIONS)
                    return
            raise AssertionError(f"transaction {number} is never committed")

        async for step in kills(brokers):
            for number in numbers(step, per_step):
                await transfer(number)
    total = STEPS * per_step * size
    found = await asyncio.to_thread(read_all, brokers.bootstrap, "transferred", total)
    assert Counter(int(one.value()) for one in found) == Counter(range(total))


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
async def test_a_consumer_reads_everything_once_and_keeps_its_place(
    brokers: BrokerProcesses, protocol: Literal["consumer", "classic"]
) -> None:
    topic = f"read-{protocol}"
    brokers.create(topic, PARTITIONS)
    await write(brokers, topic, STEPS * STEP)
    seen: list[tuple[int, int]] = []
    async with AsyncConsumer(
        brokers.bootstrap, topic, group=topic, group_protocol=protocol, auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:  # fmt: skip
        async for step in kills(brokers):
            async with asyncio.timeout(90):
                while len(seen) < numbers(step).stop:
                    records = await consumer.poll(numbers(step).stop - len(seen))
                    seen += [(one.partition, int(one.value)) for one in records]
                    await consumer.commit()
        committed = await consumer.committed()
    assert len(seen) == STEPS * STEP
    for partition in range(PARTITIONS):
        assert [one for at, one in seen if at == partition] == list(range(partition, STEPS * STEP, PARTITIONS))
    assert set(committed.values()) == {STEPS * STEP // PARTITIONS}


async def test_a_queue_consumer_gets_everything_and_nothing_that_is_accepted_comes_again(
    brokers: BrokerProcesses,
) -> None:
    brokers.create("queued", PARTITIONS)
    done = brokers.command("config", "set", "group", "workers", "share.auto.offset.reset=earliest")
    assert done.returncode == 0, done.stderr
    await write(brokers, "queued", STEPS * STEP)
    accepted: set[int] = set()
    again: list[int] = []
    async with AsyncQueueConsumer(brokers.bootstrap, "queued", group="workers") as queue:
        async for step in kills(brokers):
            async with asyncio.timeout(90):
                while len(accepted) < numbers(step).stop:
                    records = await queue.poll(200)
                    again += [int(one.value) for one in records if int(one.value) in accepted]
                    # Where a lock is lost with its leader, the record comes again.
                    with suppress(LockLostError):
                        for record in records:
                            await queue.acknowledge(record)
                        await queue.flush()
                        accepted |= {int(one.value) for one in records}
    assert accepted == set(range(STEPS * STEP))
    assert again == []
