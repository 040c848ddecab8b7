"""The same consumer on Apache Kafka: both protocols, topic ids, fetch sessions, and its clients as members."""

from __future__ import annotations

from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from tests.client.consumer.topics import numbered, read, wait_until, write
from tests.client.consumer.transacting import copy_while_members_come_and_go, visible
from tests.interop.conftest import kafka_jars
from tools.kafka_broker import KafkaBroker

from qanat.client import Consumer, TopicPartition

pytestmark = pytest.mark.long

__all__ = ["kafka_jars"]


def test_groups_on_kafka(kafka_jars: Path, tmp_path: Path) -> None:
    settings = "group.consumer.min.heartbeat.interval.ms=200\ngroup.consumer.heartbeat.interval.ms=500\n"
    broker = KafkaBroker(kafka_jars, tmp_path, settings)
    with broker.running():
        admin = AdminClient({"bootstrap.servers": broker.address})
        topics = ["consumer", "classic", "cooperative"]
        for future in admin.create_topics([NewTopic(topic, 4) for topic in topics]).values():
            future.result()
        for topic in topics:
            write(broker.address, topic, numbered(1000))
            _share(broker.address, topic)


def test_transactions_on_kafka_succeed_while_other_members_come_and_go(kafka_jars: Path, tmp_path: Path) -> None:
    settings = "group.consumer.min.heartbeat.interval.ms=100\ngroup.consumer.heartbeat.interval.ms=100\n"
    broker = KafkaBroker(kafka_jars, tmp_path, settings)
    with broker.running():
        admin = AdminClient({"bootstrap.servers": broker.address})
        for protocol in ("consumer", "cooperative"):
            for future in admin.create_topics([NewTopic(protocol, 1), NewTopic(f"{protocol}-copy", 1)]).values():
                future.result()
            write(broker.address, protocol, numbered(300))
            copy_while_members_come_and_go(broker.address, protocol, f"{protocol}-copy", protocol, 300)
            assert visible(broker.address, f"{protocol}-copy", 300) == numbered(300)


def _share(address: str, protocol: str) -> None:
    """Two of ours and one of librdkafka's are members by turns."""
    given: dict[str, object] = {"auto_offset_reset": "earliest", "heartbeat_interval_ms": 500}
    given["group_protocol"] = "consumer" if protocol == "consumer" else "classic"
    if protocol == "cooperative":
        given["partition_assignment_strategy"] = "cooperative-sticky"
    with Consumer(address, protocol, group=protocol, **given) as one:  # type: ignore[arg-type]
        assert sorted(read(one, 1000), key=int) == numbered(1000)
        theirs = confluent_kafka.Consumer(
            {
                "bootstrap.servers": address,
                "group.id": protocol,
                **({"group.protocol": "consumer"} if protocol == "consumer" else {"heartbeat.interval.ms": 500}),
                **({"partition.assignment.strategy": "cooperative-sticky"} if protocol == "cooperative" else {}),
            }
        )
        theirs.subscribe([protocol])
        seen: list[bytes] = []

        def poll_both() -> None:
            seen.extend(record.value for record in one.poll(timeout_s=0.05))
            seen.extend(message.value() or b"" for message in theirs.consume(500, 0.05) if not message.error())

        try:
            wait_until(lambda: len(one.assignment) == len(theirs.assignment()) == 2, poll_both)
            write(address, protocol, numbered(400, 1000))
            wait_until(lambda: len(seen) >= 400, poll_both)
        finally:
            theirs.close()
        wait_until(lambda: len(one.assignment) == 4, lambda: one.poll(timeout_s=0.05))
        one.commit()
        committed = one.committed(*(TopicPartition(protocol, number) for number in range(4)))

    assert sorted(seen, key=int) == numbered(400, 1000)
    assert sum(committed.values()) == 1400
