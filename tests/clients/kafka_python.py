"""kafka-python: pure Python, synchronous."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import kafka  # type: ignore[import-untyped]
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic  # type: ignore[import-untyped]
from kafka.structs import OffsetAndMetadata  # type: ignore[import-untyped]
from tests.clients.capabilities import CODECS, Progress

SECONDS = 60


class KafkaPythonMember:
    def __init__(self, address: str, group: str, topic: str) -> None:
        self._consumer = KafkaConsumer(
            topic,
            bootstrap_servers=address,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=50,
            fetch_max_wait_ms=20,
        )
        # Joining before the topic's metadata came, its leader may assign nothing and never look again: its own race.
        self._consumer.partitions_for_topic(topic)

    def pump(self) -> Progress:
        polled = self._consumer.poll(timeout_ms=50)
        values = [record.value.decode() for records in polled.values() for record in records]
        return Progress({partition.partition for partition in self._consumer.assignment()}, values)

    def commit(self) -> None:
        self._consumer.commit()

    def leave(self) -> None:
        self._consumer.close()


class KafkaPythonTransactor:
    def __init__(self, address: str, transactional_id: str, timeout_ms: int) -> None:
        self._producer = KafkaProducer(
            bootstrap_servers=address, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
        )
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, value: str) -> None:
        self._producer.send(topic, value.encode(), partition=0).get(SECONDS)

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        self._producer.send_offsets_to_transaction({TopicPartition(topic, 0): OffsetAndMetadata(offset, "", -1)}, group)

    def commit(self) -> None:
        self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close(timeout=1)


class KafkaPython:
    codecs = CODECS

    def __init__(self, address: str) -> None:
        self._address = address
        self._admin = KafkaAdminClient(bootstrap_servers=address)

    @property
    def version(self) -> str:
        return str(kafka.__version__)

    def create(self, topic: str, partitions: int) -> None:
        self._admin.create_topics([NewTopic(topic, partitions, 1)])

    def describe(self, topic: str) -> int:
        (found,) = self._admin.describe_topics([topic])
        return len(found["partitions"])

    def delete(self, topic: str) -> None:
        self._admin.delete_topics([topic])

    def produce(self, topic: str, values: Sequence[str], codec: str = "none", acks: str = "all") -> None:
        options: dict[str, Any] = {"compression_type": None if codec == "none" else codec, "linger_ms": 20}
        options |= {"acks": "all"} if acks == "all" else {"acks": int(acks), "enable_idempotence": False}
        producer = KafkaProducer(bootstrap_servers=self._address, **options)
        sent = [producer.send(topic, value.encode(), partition=0) for value in values]
        for future in sent:
            future.get(SECONDS)
        producer.close()

    def transactor(self, transactional_id: str, timeout_ms: int) -> KafkaPythonTransactor:
        return KafkaPythonTransactor(self._address, transactional_id, timeout_ms)

    def read_committed(self, topic: str, count: int) -> list[str]:
        return self.read(topic, 0, count, isolation_level="read_committed")

    def read(self, topic: str, offset: int, count: int, **options: Any) -> list[str]:
        consumer = KafkaConsumer(
            bootstrap_servers=self._address, fetch_max_wait_ms=20, consumer_timeout_ms=SECONDS * 1000, **options
        )
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek(TopicPartition(topic, 0), offset)
        values = [record.value.decode() for _, record in zip(range(count), consumer, strict=False)]
        consumer.close()
        return values

    def offset_at(self, topic: str, timestamp: int) -> int:
        consumer = KafkaConsumer(bootstrap_servers=self._address)
        found = consumer.offsets_for_times({TopicPartition(topic, 0): timestamp})
        consumer.close()
        return int(found[TopicPartition(topic, 0)].offset)

    def join(self, group: str, topic: str) -> KafkaPythonMember:
        return KafkaPythonMember(self._address, group, topic)

    def close(self) -> None:
        self._admin.close()
