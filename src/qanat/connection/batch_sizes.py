"""Sizes of a partition's batches: a Fetch, of which only the headers are read.

No request of Kafka's protocol returns sizes by offset, so the batches themselves are fetched.
"""

from __future__ import annotations

from typing import NamedTuple

from qanat.connection.cluster import Cluster
from qanat.connection.deadline import Deadline
from qanat.connection.faults import check, refused
from qanat.connection.fetching import FetchLimits, fetch_batches, whole_batches
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import TopicPartition
from qanat.wire.batch_header import BatchHeader, read_header

_WAIT_MS = 100


class SizedBatch(NamedTuple):
    """A batch: the offset after it, and its size in the log."""

    next_offset: int
    size: int


async def batch_sizes(
    cluster: Cluster, at: TopicPartition, position: int, end_offset: int, max_bytes: int, deadline: Deadline
) -> list[SizedBatch]:
    """The first batches from a position on, about `max_bytes` of them and at least one, none beyond the end.

    Deleted or compacted records have no size: they are part of the next batch, or of an empty one. Of a batch that
    begins before the position or ends beyond the end, the records between them count for their part of its size.
    """
    limits = FetchLimits(max_wait_ms=_WAIT_MS, max_bytes=max_bytes, partition_bytes=max_bytes)

    async def attempt() -> list[SizedBatch]:
        view = await cluster.topic(at.topic, deadline)
        link = await cluster.node_link(view.leaders[at.partition], deadline)
        (row,) = await fetch_batches(link, at.topic, {at.partition: position}, limits, deadline)
        if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and position < row.log_start_offset:
            return [SizedBatch(min(row.log_start_offset, end_offset), 0)]
        check(f"fetch of {at}", row.error_code)
        found = [(read_header(batch), len(batch)) for batch in whole_batches(row.records)]
        if found:
            return [_ahead(one, size, position, end_offset) for one, size in found if one.base_offset < end_offset]
        if row.high_watermark < end_offset:
            # Another leader reported the end; this one does not know yet that it is committed.
            raise refused(f"fetch of {at}", ErrorCode.OFFSET_NOT_AVAILABLE)
        return []

    return await cluster.persist(attempt, deadline) or [SizedBatch(end_offset, 0)]


def _ahead(header: BatchHeader, size: int, position: int, end_offset: int) -> SizedBatch:
    """The part of a batch between two offsets."""
    first, end = max(header.base_offset, position), min(header.next_offset, end_offset)
    return SizedBatch(end, -(-size * (end - first) // (header.next_offset - header.base_offset)))
