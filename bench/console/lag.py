"""Lag beside a foreign client: committed offsets and ends by librdkafka, computed as kafka-consumer-groups does.

That tool itself is in none of the jars that `tools.kafka_jars` brings.
"""

from __future__ import annotations

from confluent_kafka import Consumer, TopicPartition

from bench.client.bars import Bar
from bench.console.stage import PARTITIONS, READ, Stage

GROUPS = ("group-00001", "group-00007", "group-00042")
_TIMEOUT_S = 30


def bars(made: Stage) -> list[Bar]:
    """The largest difference in records, while nobody writes."""
    differences = [abs(_theirs(made, group) - made.get(f"/api/v1/groups/{group}/lag")["lag"]) for group in GROUPS]
    return [Bar("lag in records, beside librdkafka: difference", max(differences), 0, "at most", "")]


def _theirs(made: Stage, group: str) -> int:
    consumer = Consumer({"bootstrap.servers": made.address, "group.id": group})
    try:
        places = [TopicPartition(READ, number) for number in range(PARTITIONS)]
        committed = [one for one in consumer.committed(places, timeout=_TIMEOUT_S) if one.offset >= 0]
        return sum(consumer.get_watermark_offsets(one, timeout=_TIMEOUT_S)[1] - one.offset for one in committed)
    finally:
        consumer.close()
