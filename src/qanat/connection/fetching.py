"""Fetching: one Fetch to one leader, and the batches in its response.

A broker may begin with a batch whose first records are before the requested offset, and may
truncate the last batch. Both are handled here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from qanat.connection.deadline import Deadline
from qanat.connection.faults import check
from qanat.connection.link import Link
from qanat.wire.batch_header import HEADER_SIZE, BatchHeader, batch_size_at, read_header
from qanat.wire.kafka.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from qanat.wire.kafka.registry import ApiKey
from qanat.wire.records import Record, decode_records

INFLATED_BYTES_MAX = 256 * 1024 * 1024
"""Largest batch after decompression; a broker is trusted further than a client."""


class FetchLimits(msgspec.Struct, frozen=True):
    """How long a broker may wait for records, and how much it may send."""

    max_wait_ms: int = 500
    max_bytes: int = 16 * 1024 * 1024
    partition_bytes: int = 1024 * 1024
    is_committed_only: bool = False


class Fetched(msgspec.Struct, frozen=True):
    """The result for one partition."""

    partition: int
    error_code: int
    high_watermark: int
    records: list[Record]
    next_offset: int
    """Where to continue; past control batches and compacted records."""


async def fetch(
    link: Link, topic: str, positions: Mapping[int, int], limits: FetchLimits, deadline: Deadline
) -> list[Fetched]:
    """Fetch once from these offsets; an error of one partition is in its result."""
    answers = await fetch_batches(link, topic, positions, limits, deadline)
    return [_fetched(data, positions[data.partition_index]) for data in answers]


async def fetch_batches(
    link: Link, topic: str, positions: Mapping[int, int], limits: FetchLimits, deadline: Deadline
) -> list[PartitionData]:
    """Fetch once from these offsets; the batches stay encoded."""
    partitions = [
        FetchPartition(partition, fetch_offset=offset, partition_max_bytes=limits.partition_bytes)
        for partition, offset in positions.items()
    ]
    request = FetchRequest(
        max_wait_ms=min(limits.max_wait_ms, deadline.left_ms),
        min_bytes=1,
        max_bytes=limits.max_bytes,
        isolation_level=int(limits.is_committed_only),
        topics=[FetchTopic(topic, partitions=partitions)],
    )
    response: FetchResponse = await link.call(ApiKey.FETCH, request, deadline)
    check(f"fetch from {link.address}", response.error_code)
    return [data for one in response.responses for data in one.partitions]


def _fetched(data: PartitionData, position: int) -> Fetched:
    records: list[Record] = []
    next_offset = position
    for batch, header, is_visible in marked_batches(data):
        next_offset = max(next_offset, header.next_offset)
        if is_visible:
            records += [one for one in decode_records(batch, INFLATED_BYTES_MAX) if one.offset >= position]
    return Fetched(data.partition_index, data.error_code, data.high_watermark, records, next_offset)


def marked_batches(data: PartitionData) -> Iterator[tuple[memoryview, BatchHeader, bool]]:
    """Every whole batch, with its header and whether its records are for readers: no markers, nothing aborted.

    Brokers name the aborted transactions only to readers of committed records.
    """
    beginnings: dict[int, list[int]] = {}
    for one in sorted(data.aborted_transactions or (), key=lambda one: one.first_offset):
        beginnings.setdefault(one.producer_id, []).append(one.first_offset)
    for batch in whole_batches(data.records):
        header = read_header(batch)
        aborted = beginnings.get(header.producer_id, []) if header.is_transactional else []
        is_aborted = bool(aborted) and header.base_offset >= aborted[0]
        if header.is_control and is_aborted:
            aborted.pop(0)
        yield batch, header, not (header.is_control or is_aborted)


def whole_batches(data: memoryview | bytes | list[memoryview] | None) -> Iterator[memoryview]:
    """The batches in `data`; a truncated one at its end is left out."""
    if data is None or isinstance(data, list):
        return
    view = memoryview(data)
    position = 0
    while position + HEADER_SIZE <= len(view):
        size = batch_size_at(view, position)
        if size < HEADER_SIZE or position + size > len(view):
            return
        yield view[position : position + size]
        position += size
