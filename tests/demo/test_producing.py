"""The demonstration's measurements over HTTP: each arrives unchanged, in the partition that a Kafka client chooses."""

from __future__ import annotations

from confluent_kafka import Consumer, Message, TopicPartition
from demo.fleet import HOUR_MS, Truth, measure
from demo.producing import TOPIC, produce_by_http
from tests.servers.http.serving import node_settings, served

from qanat.wire.key_hash import partition_of


def test_what_is_sent_over_http_arrives_to_the_byte() -> None:
    records = list(measure(400_000 * HOUR_MS, 5, Truth()))
    progress: list[int] = []
    with served(node_settings()) as node:
        produce_by_http(f"127.0.0.1:{node.port}", records, progress.append)
        consumer = Consumer({"bootstrap.servers": node.node.address, "group.id": "g", "enable.auto.commit": False})
        consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(4)])
        found: list[Message] = []
        while len(found) < len(records):
            found += [message for message in consumer.consume(1000, 0.5) if message.error() is None]
        consumer.close()

    assert sum(progress) == len(records) > 500
    arrived = sorted((message.key(), message.value() or b"", message.timestamp()[1]) for message in found)
    assert arrived == sorted((one.key, one.value, one.arrival_ms) for one in records)
    assert all(message.partition() == partition_of(message.key() or b"", 4) for message in found)
