"""The producer on Apache Kafka: the judge of its protocol, restarted under load."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.client.judge import read_all
from tests.interop.conftest import kafka_jars
from tools.kafka_broker import KafkaBroker

from qanat.client import AsyncProducer

pytestmark = pytest.mark.long

__all__ = ["kafka_jars"]

TOPIC = "orders"


async def test_kafka_takes_every_compression_transactions_and_a_restart(kafka_jars: Path, tmp_path: Path) -> None:
    broker = KafkaBroker(kafka_jars, tmp_path, settings="num.partitions=2\n")
    with broker.running():
        for number, compression in enumerate(["none", "gzip", "snappy", "lz4", "zstd"]):
            async with AsyncProducer(broker.address, compression_type=compression) as producer:
                for value in range(1000):
                    await producer.send(TOPIC, b"%d" % (number * 1000 + value), partition=value % 2)
        async with AsyncProducer(broker.address, transactional_id="t") as producer:
            for first in range(5000, 6000, 100):
                async with producer.transaction():
                    for value in range(first, first + 100):
                        await producer.send(TOPIC, b"%d" % value, partition=value % 2)
    producer = AsyncProducer(broker.address, batch_size=2000, request_timeout_ms=5000, bootstrap_timeout_ms=60_000)
    with broker.running():
        receipts = [await producer.send(TOPIC, b"%d" % value, partition=value % 2) for value in range(6000, 9000)]
        await receipts[0]
    more = asyncio.ensure_future(_send(producer, 9000, 20_000))
    with broker.running():
        await more
        await producer.close()
        found = read_all(broker.address, TOPIC, 20_000)
    for partition in (0, 1):
        values = [int(one.value() or b"") for one in found if one.partition() == partition]
        assert values == list(range(partition, 20_000, 2))


async def _send(producer: AsyncProducer, first: int, end: int) -> None:
    for value in range(first, end):
        await producer.send(TOPIC, b"%d" % value, partition=value % 2)
