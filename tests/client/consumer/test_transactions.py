"""Offsets in transactions: what a group reads, it writes exactly once."""

from __future__ import annotations

import pytest
from tests.client.consumer.topics import new_topic, numbered, read, write

from qanat.client import AsyncConsumer, AsyncProducer, Consumer, TopicPartition
from qanat.testing import EmbeddedBroker


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
async def test_an_aborted_round_is_read_again_and_nothing_is_doubled(
    kept_broker: EmbeddedBroker, protocol: str
) -> None:
    source, target = new_topic(kept_broker, 2), new_topic(kept_broker)
    address = kept_broker.bootstrap_servers
    write(address, source, numbered(100))
    for attempt in range(2):
        async with (
            AsyncProducer(address, transactional_id=f"x-{source}") as producer,
            AsyncConsumer(
                address,
                source,
                group=f"g-{source}",
                group_protocol=protocol,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                isolation_level="read_committed",
            ) as consumer,
        ):
            seen = 0
            while seen < 100:
                records = await consumer.poll(timeout_s=30)
                seen += len(records)
                offsets = {record.topic_partition: record.offset + 1 for record in records}
                try:
                    async with producer.transaction() as transaction:
                        for record in records:
                            await producer.send(target, record.value)
                        await transaction.commit_offsets(consumer, offsets)
                        if attempt == 0:
                            raise ZeroDivisionError
                except ZeroDivisionError:
                    continue
    with Consumer(address, target, auto_offset_reset="earliest", isolation_level="read_committed") as consumer:
        written = read(consumer, 100)
        assert consumer.poll(timeout_s=0.2) == []
    with Consumer(address, source, group=f"g-{source}", group_protocol=protocol) as judge:
        committed = judge.committed(TopicPartition(source, 0), TopicPartition(source, 1))

    assert sorted(written, key=int) == numbered(100)
    assert sum(committed.values()) == 100
