"""Dead letters for tests, and the records of a topic that readers of committed records see."""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from qanat.model.dead_letters import Origin

SECONDS = 60


def write_letters(bootstrap: str, topic: str, origins: Iterable[Origin], partition: int = 0) -> None:
    """A letter for each origin; its value is the origin's place, its key the partition."""
    producer = Producer({"bootstrap.servers": bootstrap, "queue.buffering.max.messages": 1_000_000})
    for origin in origins:
        producer.produce(
            topic,
            f"{origin.topic}-{origin.partition}-{origin.offset}".encode(),
            str(origin.partition).encode(),
            partition=partition,
            timestamp=origin.timestamp_ms or 0,
            headers=[("trace", b"1"), *origin.headers()],
        )
    assert producer.flush(SECONDS) == 0


def origins(topic: str, count: int, message: str = "rejected", partitions: int = 2) -> list[Origin]:
    return [
        Origin(topic, number % partitions, number, message, "workers", 5, 1_700_000_000_000 + number)
        for number in range(count)
    ]


def committed_records(bootstrap: str, topic: str) -> list[Message]:
    """Everything that a reader of committed records finds in the topic now."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "isolation.level": "read_committed"})
    try:
        partitions = list(consumer.list_topics(topic, SECONDS).topics[topic].partitions)
        found: list[Message] = []
        for number in partitions:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, number), SECONDS)
            consumer.assign([TopicPartition(topic, number, low)])
            while consumer.position([TopicPartition(topic, number)])[0].offset < high and low < high:
                found += [one for one in consumer.consume(1000, 0.2) if one.error() is None]
        return found
    finally:
        consumer.close()
