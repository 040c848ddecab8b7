"""Records read straight from the log, for tests that check what was really written."""

from __future__ import annotations

from msgspec import Struct

from qanat.broker.broker import Broker
from qanat.broker.replicas.partition import Partition
from qanat.wire.batch_header import read_header, split_batches
from qanat.wire.records import Header, decode_records

_READ_BYTES = 4 * 1024 * 1024
_DECODED_BYTES_MAX = 1024 * 1024 * 1024


class StoredRecord(Struct, frozen=True):
    """One record and its place; `timestamp` in milliseconds."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


def partitions_of(broker: Broker, topic: str) -> list[Partition]:
    """The topic's partitions in order; none where there is no such topic."""
    found = [partition for at, partition in broker.partitions.items() if at.topic == topic]
    return sorted(found, key=lambda partition: partition.at.partition)


def count(broker: Broker, topic: str) -> int:
    """How many offsets of the topic can be read: never less than its records."""
    logs = [partition.log for partition in partitions_of(broker, topic)]
    return sum(log.high_watermark - log.log_start_offset for log in logs)


async def read_all(broker: Broker, topic: str) -> list[StoredRecord]:
    """All written records, by partition and offset, acknowledged or not."""
    return [record for partition in partitions_of(broker, topic) for record in await read_partition(partition)]


async def read_partition(partition: Partition) -> list[StoredRecord]:
    """All written records of one replica."""
    found: list[StoredRecord] = []
    # Records with acks=1 or 0 may not be on disk yet when the producer continues, and can be read only then.
    durable = partition.when_durable()
    if durable is not None:
        await durable
    offset, end_offset = partition.log.log_start_offset, partition.end_of_reading(is_committed=False)
    while offset < end_offset:
        part = await partition.read(offset, _READ_BYTES, end_offset)
        for batch in (batch for view in part.views() for batch in split_batches(view)):
            if not read_header(batch).is_control:
                found += _records(partition, batch, offset)
        offset = part.next_offset
    return found


def _records(partition: Partition, batch: memoryview, first_offset: int) -> list[StoredRecord]:
    at = partition.at
    return [
        StoredRecord(at.topic, at.partition, one.offset, one.timestamp, one.key, one.value, one.headers)
        for one in decode_records(batch, _DECODED_BYTES_MAX)
        if one.offset >= first_offset
    ]
