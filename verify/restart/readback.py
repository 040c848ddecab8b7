"""The contents of a broker after its start, read over the wire with a new client."""

from __future__ import annotations

import time

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from verify.restart.ledger import Contents, Place
from verify.restart.load import GROUP, TOPIC

_TIMEOUT_S = 60.0
_LOOK_AGAIN_S = 0.05


def read_back(address: str) -> Contents:
    """All topics, every record of the load's topic, and the offsets of its group."""
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
        metadata = consumer.list_topics(timeout=_TIMEOUT_S)
        found = Contents(topics=list(metadata.topics))
        if TOPIC in metadata.topics:
            partitions = list(metadata.topics[TOPIC].partitions)
            _read_commits(consumer, partitions, found)
            _read_records(consumer, partitions, found)
        return found
    finally:
        consumer.close()


def _read_commits(consumer: Consumer, partitions: list[int], found: Contents) -> None:
    for one in consumer.committed([TopicPartition(TOPIC, number) for number in partitions], timeout=_TIMEOUT_S):
        if one.error is not None:
            raise KafkaException(one.error)
        if one.offset >= 0:
            found.commits[GROUP, TOPIC, one.partition] = one.offset


def _read_records(consumer: Consumer, partitions: list[int], found: Contents) -> None:
    records: dict[Place, list[tuple[int, bytes]]] = {(TOPIC, number): [] for number in partitions}
    consumer.assign([TopicPartition(TOPIC, number, OFFSET_BEGINNING) for number in partitions])
    unread, deadline = dict.fromkeys(partitions), time.monotonic() + _TIMEOUT_S
    while unread:
        if time.monotonic() > deadline:
            raise TimeoutError(f"partitions {list(unread)} were not read to their end in {_TIMEOUT_S:.0f} s")
        for message in consumer.consume(1000, _LOOK_AGAIN_S):
            fault, partition = message.error(), message.partition() or 0
            if fault is None:
                records[TOPIC, partition].append((message.offset() or 0, message.value() or b""))
            elif fault.code() == KafkaError._PARTITION_EOF:
                unread.pop(partition, None)
            else:
                raise KafkaException(fault)
    found.records = records
