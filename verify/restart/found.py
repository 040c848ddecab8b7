"""What a broker has after its start, asked through the wire with a fresh client."""

from __future__ import annotations

import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from verify.restart.ledger import Found, Place
from verify.restart.load import GROUP, TOPIC

_PATIENCE_S = 60.0
_LOOK_AGAIN_S = 0.05


def find(address: str) -> Found:
    """All topics, every record of the load's topic, and where its group is."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": GROUP,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
            "error_cb": lambda _: None,
        }
    )
    try:
        metadata = consumer.list_topics(timeout=_PATIENCE_S)
        found = Found(topics=list(metadata.topics))
        if TOPIC in metadata.topics:
            partitions = list(metadata.topics[TOPIC].partitions)
            _find_commits(consumer, partitions, found)
            _find_records(consumer, partitions, found)
        return found
    finally:
        consumer.close()


def _find_commits(consumer: Consumer, partitions: list[int], found: Found) -> None:
    for one in consumer.committed([TopicPartition(TOPIC, number) for number in partitions], timeout=_PATIENCE_S):
        if one.error is not None:
            raise KafkaException(one.error)
        if one.offset >= 0:
            found.commits[GROUP, TOPIC, one.partition] = one.offset


def _find_records(consumer: Consumer, partitions: list[int], found: Found) -> None:
    records: dict[Place, list[tuple[int, bytes]]] = {(TOPIC, number): [] for number in partitions}
    consumer.assign([TopicPartition(TOPIC, number, OFFSET_BEGINNING) for number in partitions])
    unread, deadline = dict.fromkeys(partitions), time.monotonic() + _PATIENCE_S
    while unread:
        if time.monotonic() > deadline:
            raise TimeoutError(f"partitions {list(unread)} were not read to their end in {_PATIENCE_S:.0f} s")
        for message in consumer.consume(1000, _LOOK_AGAIN_S):
            fault, partition = message.error(), message.partition() or 0
            if fault is None:
                records[TOPIC, partition].append((message.offset() or 0, message.value() or b""))
            elif fault.code() == KafkaError._PARTITION_EOF:
                unread.pop(partition, None)
            else:
                raise KafkaException(fault)
    found.records = records
