"""confluent-kafka: librdkafka behind Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import confluent_kafka
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from tests.clients.capabilities import CODECS, Progress

SECONDS = 60


class ConfluentMember:
    def __init__(self, options: dict[str, Any], group: str, topic: str) -> None:
        group_options = {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        self._consumer = Consumer({**options, **group_options, "heartbeat.interval.ms": 50, "fetch.wait.max.ms": 20})
        self._consumer.subscribe([topic])

    def pump(self) -> Progress:
        values = [message.value() for message in self._consumer.consume(100, 0.05) if message.error() is None]
        assigned = {partition.partition for partition in self._consumer.assignment()}
        return Progress(assigned, [value.decode() for value in values if value is not None])

    def commit(self) -> None:
        self._consumer.commit(asynchronous=False)

    def leave(self) -> None:
        self._consumer.close()


class ConfluentTransactor:
    def __init__(self, options: dict[str, Any], transactional_id: str, timeout_ms: int) -> None:
        own = {"transactional.id": transactional_id, "transaction.timeout.ms": timeout_ms, "linger.ms": 0}
        self._options = options
        self._producer = Producer({**options, **own})
        self._producer.init_transactions(SECONDS)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, value: str) -> None:
        faults: list[Any] = []
        self._producer.produce(topic, value.encode(), partition=0, on_delivery=lambda fault, _: faults.append(fault))
        assert self._producer.flush(SECONDS) == 0
        if faults != [None]:
            raise KafkaException(faults[0])

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        consumer = Consumer({**self._options, "group.id": group})
        metadata = consumer.consumer_group_metadata()
        self._producer.send_offsets_to_transaction([TopicPartition(topic, 0, offset)], metadata, SECONDS)
        consumer.close()

    def commit(self) -> None:
        self._producer.commit_transaction(SECONDS)

    def abort(self) -> None:
        self._producer.abort_transaction(SECONDS)

    def close(self) -> None:
        """librdkafka ends with its object."""
        self._producer.purge()


class Confluent:
    codecs = CODECS

    def __init__(self, address: str) -> None:
        self._options: dict[str, Any] = {"bootstrap.servers": address, "log_level": 0}
        self._admin = AdminClient(self._options)

    @property
    def version(self) -> str:
        return f"{confluent_kafka.version()} (librdkafka {confluent_kafka.libversion()[0]})"

    def create(self, topic: str, partitions: int) -> None:
        self._admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(SECONDS)

    def describe(self, topic: str) -> int:
        return len(self._admin.list_topics(topic, SECONDS).topics[topic].partitions)

    def delete(self, topic: str) -> None:
        self._admin.delete_topics([topic])[topic].result(SECONDS)

    def produce(self, topic: str, values: Sequence[str], codec: str = "none", acks: str = "all") -> None:
        faults: list[object] = []
        options = {"compression.type": codec, "acks": acks, "linger.ms": 20}
        producer = Producer({**self._options, **options})
        for value in values:
            producer.produce(
                topic,
                value.encode(),
                partition=0,
                on_delivery=lambda fault, _: faults.append(fault) if fault is not None else None,
            )
        assert producer.flush(SECONDS) == 0
        assert faults == []

    def read_committed(self, topic: str, count: int) -> list[str]:
        return self.read(topic, 0, count)  # Its default.

    def transactor(self, transactional_id: str, timeout_ms: int) -> ConfluentTransactor:
        return ConfluentTransactor(self._options, transactional_id, timeout_ms)

    def read(self, topic: str, offset: int, count: int) -> list[str]:
        consumer = Consumer({**self._options, "group.id": "none", "enable.auto.commit": False})
        consumer.assign([TopicPartition(topic, 0, offset)])
        messages = consumer.consume(count, SECONDS)
        consumer.close()
        return [(message.value() or b"").decode() for message in messages if message.error() is None]

    def offset_at(self, topic: str, timestamp: int) -> int:
        consumer = Consumer({**self._options, "group.id": "none"})
        (found,) = consumer.offsets_for_times([TopicPartition(topic, 0, timestamp)], SECONDS)
        consumer.close()
        return int(found.offset)

    def join(self, group: str, topic: str) -> ConfluentMember:
        return ConfluentMember(self._options, group, topic)

    def close(self) -> None:
        """Nothing to close: librdkafka ends with its objects."""
