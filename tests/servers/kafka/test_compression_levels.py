"""`compression.*.level`: what a broker that recompresses writes, read by librdkafka; and levels that do not exist."""

from __future__ import annotations

import random

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)
from tests.servers.conftest import RunningBroker

from qanat.broker.replicas.partition import Partition

SECONDS = 60
TEXT = b" ".join(random.Random(1).choices([b"%d" % number for number in range(3000)], k=5_000))


def make(broker: RunningBroker, name: str, **settings: str) -> None:
    config = {key.replace("_", "."): value for key, value in settings.items()}
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.create_topics([NewTopic(name, 1, 1, config=config)])[name].result(SECONDS)


def written_bytes(broker: RunningBroker, name: str) -> int:
    """What one message of the same text adds to the log."""
    found = broker.broker.lookup.led(name, 0)
    assert isinstance(found, Partition)
    before = found.log.size
    producer = Producer({"bootstrap.servers": broker.address, "log_level": 0})
    producer.produce(name, TEXT)
    assert producer.flush(SECONDS) == 0
    return found.log.size - before


def values(broker: RunningBroker, name: str, count: int) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "g", "check.crcs": True})
    try:
        consumer.assign([TopicPartition(name, 0, 0)])
        return [message.value() for message in consumer.consume(count, SECONDS)]
    finally:
        consumer.close()


@pytest.mark.parametrize(("codec", "low", "high"), [("gzip", "1", "9"), ("lz4", "3", "12"), ("zstd", "-50", "19")])
def test_a_higher_level_takes_less_of_the_disk_as_soon_as_it_is_set(
    broker: RunningBroker, codec: str, low: str, high: str
) -> None:
    level = f"compression.{codec}.level"
    make(broker, "packed", compression_type=codec, **{level.replace(".", "_"): low})
    large = written_bytes(broker, "packed")
    entry = ConfigEntry(level, high, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, "packed", incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.incremental_alter_configs([resource])[resource].result(SECONDS)

    assert large > 1.02 * written_bytes(broker, "packed")
    assert values(broker, "packed", 2) == [TEXT, TEXT]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("compression_gzip_level", "0"),
        ("compression_gzip_level", "10"),
        ("compression_lz4_level", "0"),
        ("compression_lz4_level", "18"),
        ("compression_zstd_level", "23"),
        ("compression_zstd_level", "-131073"),
        ("compression_zstd_level", "high"),
    ],
)
def test_a_level_that_does_not_exist_is_refused(broker: RunningBroker, name: str, value: str) -> None:
    with pytest.raises(KafkaException) as caught:
        make(broker, "packed", **{name: value})
    assert caught.value.args[0].code() == KafkaError.INVALID_CONFIG
