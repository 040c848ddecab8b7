"""librdkafka as the client of both brokers: topics, plain and transactional messages, and reads of all of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from qanat.wire.records import Record

SECONDS = 30


def create_topics(address: str, names: Iterable[str]) -> None:
    """Topics of one partition that keep everything."""
    admin = AdminClient({"bootstrap.servers": address})
    topics = [NewTopic(name, 1, 1, config={"retention.ms": "-1", "retention.bytes": "-1"}) for name in names]
    for created in admin.create_topics(topics).values():
        created.result(SECONDS)


def produce(address: str, topic: str, records: Iterable[Record], **options: object) -> None:
    """Send records in one go, so that they share a batch."""
    producer = Producer({"bootstrap.servers": address, "linger.ms": 200, **options})
    _send(producer, topic, records)
    assert producer.flush(SECONDS) == 0, "not everything was delivered"


def produce_in_transaction(address: str, topic: str, records: Iterable[Record], *, is_commit: bool) -> None:
    """Send records in a transaction, and end it."""
    producer = Producer({"bootstrap.servers": address, "transactional.id": f"{topic}-{is_commit}"})
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    _send(producer, topic, records)
    assert producer.flush(SECONDS) == 0, "not everything was delivered"
    if is_commit:
        producer.commit_transaction(SECONDS)
    else:
        producer.abort_transaction(SECONDS)


def _send(producer: Producer, topic: str, records: Iterable[Record]) -> None:
    for record in records:
        producer.produce(
            topic,
            key=record.key,
            value=record.value,
            headers=list(record.headers),
            timestamp=record.timestamp,
            partition=0,
        )


def consume(address: str, topic: str, isolation: str) -> list[Record]:
    """All that a consumer gets of a topic's one partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "interop",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "check.crcs": True,
            "fetch.wait.max.ms": 10,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[Record] = []
    while (message := consumer.poll(SECONDS)) is not None:
        error = message.error()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            consumer.close()
            return found
        found.append(_record(message))
    raise AssertionError(f"{topic} did not end within {SECONDS} seconds")


def _record(message: Any) -> Record:
    """The client's types are looser than what it delivers."""
    _, timestamp = message.timestamp()
    return Record(message.offset(), timestamp, message.key(), message.value(), tuple(message.headers() or ()))
