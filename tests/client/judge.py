"""confluent-kafka as the judge of what our producers wrote."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer


def read_all(bootstrap: str, topic: str, count: int) -> list[Any]:
    """The committed records of a topic, as soon as there are so many; and none beyond them."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "judge",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    consumer.subscribe([topic])
    found: list[Any] = []
    ends: set[int] = set()
    try:
        partitions = len(consumer.list_topics(topic, 30).topics[topic].partitions)
        while len(found) < count or len(ends) < partitions:
            message = consumer.poll(30)
            assert message is not None, f"{len(found)} of {count} records came"
            fault = message.error()
            if fault is None:
                found.append(message)
                ends.discard(message.partition() or 0)
            else:
                ends.add(message.partition() or 0)
    finally:
        consumer.close()
    assert len(found) == count, f"{len(found)} records instead of {count}"
    return found
