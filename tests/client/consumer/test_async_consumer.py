"""The asyncio consumer: iteration, hooks on the caller's loop, and the caller's loop as the place of its I/O."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from tests.client.consumer.topics import new_topic, numbered, wait_until, write

from qanat.client import AsyncConsumer, IoLoop, TopicPartition
from qanat.client.errors import ClientError
from qanat.testing import EmbeddedBroker

EARLIEST: dict[str, Any] = {"auto_offset_reset": "earliest"}


@pytest.mark.parametrize("is_here", [False, True])
async def test_records_come_one_by_one_and_what_is_finished_is_committed(
    kept_broker: EmbeddedBroker, is_here: bool
) -> None:
    topic = new_topic(kept_broker, 2)
    write(kept_broker.bootstrap_servers, topic, numbered(500))
    io = IoLoop.here() if is_here else None
    seen = []
    async with AsyncConsumer(kept_broker.bootstrap_servers, topic, group=f"g-{topic}", io=io, **EARLIEST) as consumer:
        async for record in consumer:
            seen.append(record.value)
            if len(seen) == 500:
                break
    async with AsyncConsumer(kept_broker.bootstrap_servers, topic, group=f"g-{topic}", io=io) as consumer:
        committed = await consumer.committed(TopicPartition(topic, 0), TopicPartition(topic, 1))

    assert sorted(seen, key=int) == numbered(500)
    assert sum(committed.values()) == 500


async def test_hooks_run_on_the_callers_loop_and_may_seek(kept_broker: EmbeddedBroker) -> None:
    topic = new_topic(kept_broker)
    write(kept_broker.bootstrap_servers, topic, numbered(10))
    heard: list[tuple[str, list[TopicPartition], bool]] = []
    me = threading.get_ident()

    async def assigned(partitions: list[TopicPartition]) -> None:
        heard.append(("assigned", partitions, threading.get_ident() == me))
        await consumer.seek(partitions[0], 7)

    async def revoked(partitions: list[TopicPartition]) -> None:
        heard.append(("revoked", partitions, threading.get_ident() == me))
        await consumer.commit()

    consumer = AsyncConsumer(
        kept_broker.bootstrap_servers,
        topic,
        group=f"g-{topic}",
        enable_auto_commit=False,
        on_assigned=assigned,
        on_revoked=revoked,
        **EARLIEST,
    )
    async with consumer:
        records = await consumer.poll(timeout_s=30)
    at = TopicPartition(topic, 0)
    async with AsyncConsumer(kept_broker.bootstrap_servers, topic, group=f"g-{topic}") as after:
        committed = await after.committed(at)

    assert [record.value for record in records] == numbered(3, 7)
    assert heard == [("assigned", [at], True), ("revoked", [at], True)]
    assert committed == {at: 10}


async def test_what_a_hook_raises_is_raised_by_the_next_call(kept_broker: EmbeddedBroker) -> None:
    topic = new_topic(kept_broker)

    async def assigned(partitions: list[TopicPartition]) -> None:
        raise ZeroDivisionError

    async with AsyncConsumer(
        kept_broker.bootstrap_servers, topic, group=f"g-{topic}", on_assigned=assigned
    ) as consumer:
        with pytest.raises(ZeroDivisionError):
            await consumer.poll(timeout_s=30)


async def test_batches_and_arrow_have_every_record(kept_broker: EmbeddedBroker) -> None:
    topic = new_topic(kept_broker, 2)
    write(kept_broker.bootstrap_servers, topic, numbered(1000))
    records, rows = 0, 0
    async with AsyncConsumer(kept_broker.bootstrap_servers, topic, **EARLIEST) as consumer:
        async for batch in consumer.batches(100):
            assert len(batch) <= 100
            records += len(batch)
            if records == 1000:
                break
        for at in consumer.assignment:
            await consumer.seek(at, "earliest")
        async for table in consumer.arrow(300, 0.1):
            rows += table.num_rows
            if rows == 1000:
                break

    assert (records, rows) == (1000, 1000)


async def test_memory_is_bounded_while_the_user_rests(kept_broker: EmbeddedBroker) -> None:
    topic = new_topic(kept_broker, 4)
    write(kept_broker.bootstrap_servers, topic, [b"x" * 10_000] * 2000)
    async with AsyncConsumer(
        kept_broker.bootstrap_servers, topic, queued_max_bytes=1_000_000, max_partition_fetch_bytes=200_000, **EARLIEST
    ) as consumer:
        seen = len(await consumer.poll(1, timeout_s=30))
        buffer = consumer._started().buffer
        await asyncio.to_thread(wait_until, lambda: buffer.is_waiting_for_room)
        # One fetch of every partition may be under way when the limit is reached.
        assert buffer.buffered_bytes <= 1_000_000 + 4 * 220_000
        while seen < 2000:
            seen += len(await consumer.poll())
        assert seen == 2000
        assert buffer.buffered_bytes == 0


async def test_a_consumer_without_a_group_has_nothing_to_commit(kept_broker: EmbeddedBroker) -> None:
    topic = new_topic(kept_broker)
    async with AsyncConsumer(kept_broker.bootstrap_servers, topic) as consumer:
        with pytest.raises(ClientError, match="neither a group nor a store"):
            await consumer.commit()
