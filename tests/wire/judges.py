"""Foreign implementations of record batches: independent judges of what we read and write."""

from __future__ import annotations

import itertools
import warnings
from typing import Any, NamedTuple

from confluent_kafka import Consumer, TopicPartition
from tools.fake_broker import TOPIC

with warnings.catch_warnings():
    # kafka-python reads its schemas in a way that Python 3.11 warns about.
    warnings.simplefilter("ignore", DeprecationWarning)
    import aiokafka.record.default_records as aiokafka_records  # type: ignore[import-untyped]
    import kafka  # type: ignore[import-untyped]
    import kafka.record.default_records as kafka_records  # type: ignore[import-untyped]

CONSUME_SECONDS = 60.0


class Judge(NamedTuple):
    """A reader and a builder of batches."""

    name: str
    reader: Any
    builder: Any


JUDGES = [
    Judge("aiokafka", aiokafka_records.DefaultRecordBatch, aiokafka_records.DefaultRecordBatchBuilder),
    Judge(
        "aiokafka-pure",
        aiokafka_records._DefaultRecordBatchPy,
        aiokafka_records._DefaultRecordBatchBuilderPy,
    ),
    Judge(
        "kafka-python",
        kafka_records.DefaultRecordBatch,
        kafka_records.DefaultRecordBatchBuilder,
    ),
]


class Reading(NamedTuple):
    """A record as a foreign consumer gave it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def read_by_librdkafka(address: str, count: int) -> list[Reading]:
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": "none", "enable.auto.commit": False, "check.crcs": True}
    )
    try:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        messages: list[Any] = consumer.consume(count, CONSUME_SECONDS)
    finally:
        consumer.close()
    assert [message.error() for message in messages] == [None] * len(messages)
    return [Reading(m.offset(), m.timestamp()[1], m.key(), m.value(), tuple(m.headers() or ())) for m in messages]


def read_by_kafka_python(address: str, count: int) -> list[Reading]:
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=address, check_crcs=True, consumer_timeout_ms=int(CONSUME_SECONDS * 1000)
    )
    try:
        partition = kafka.TopicPartition(TOPIC, 0)
        consumer.assign([partition])
        consumer.seek(partition, 0)
        messages = list(itertools.islice(consumer, count))
    finally:
        consumer.close()
    return [Reading(m.offset, m.timestamp, m.key, m.value, tuple(m.headers)) for m in messages]
