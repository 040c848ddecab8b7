"""Transactions that copy a topic while other members of the group come and go; on any broker."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from tests.client.consumer.topics import read, wait_until

from qanat.client import Consumer, Producer, Record, TopicPartition


def member(address: str, topic: str, protocol: str = "consumer", **settings: object) -> Consumer:
    given: dict[str, object] = {
        "auto_offset_reset": "earliest",
        "heartbeat_interval_ms": 100,
        "enable_auto_commit": False,
        "isolation_level": "read_committed",
        "group_protocol": protocol,
        **settings,
    }
    if protocol == "cooperative":
        given |= {"group_protocol": "classic", "partition_assignment_strategy": "cooperative-sticky"}
    return Consumer(address, topic, group=f"g-{topic}", **given)  # type: ignore[arg-type]


def ends(records: Sequence[Record[bytes | None, bytes | None]]) -> dict[TopicPartition, int]:
    return {record.topic_partition: record.offset + 1 for record in records}


def visible(address: str, topic: str, count: int) -> list[bytes]:
    """What is committed in a topic: so many values, and what is there beyond them."""
    with Consumer(address, topic, auto_offset_reset="earliest", isolation_level="read_committed") as consumer:
        return read(consumer, count) + [record.value or b"" for record in consumer.poll(timeout_s=0.3)]


def copy_while_members_come_and_go(address: str, topic: str, target: str, protocol: str, count: int) -> None:
    """Copy so many records of a topic with one partition; every transaction must succeed at once.

    It waits for rebalances where it is quicker than they are.
    """
    is_over = threading.Event()

    def come_and_go() -> None:
        while not is_over.is_set():
            with member(address, topic, protocol):
                is_over.wait(0.15)

    with (
        member(address, topic, protocol) as consumer,
        Producer(address, transactional_id=f"t-{topic}") as producer,
    ):
        wait_until(lambda: bool(consumer.assignment), lambda: consumer.poll(0, timeout_s=0.05))
        began = consumer.group_metadata.generation_or_epoch
        passing = threading.Thread(target=come_and_go)
        passing.start()
        copied = 0
        try:
            while copied < count:
                records = consumer.poll(2, timeout_s=30)
                with producer.transaction() as transaction:
                    for record in records:
                        producer.send(target, record.value)
                    transaction.commit_offsets(consumer, ends(records))
                copied += len(records)
                due = began + 4 * copied // count
                wait_until(
                    lambda due=due: consumer.group_metadata.generation_or_epoch >= due,  # type: ignore[misc]
                    lambda: consumer.poll(0, timeout_s=0.05),
                )
        finally:
            is_over.set()
            passing.join()
