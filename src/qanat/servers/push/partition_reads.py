"""Reads of one partition for a subscriber: from the log where this broker leads it, otherwise from its leader.

A subscriber that continues is checked against the log first: by its offset, and by the leader epoch of its last record
(`edge.resume`). The check is repeated whenever another broker or leadership serves the partition.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.api.api_table import SERVED
from qanat.broker.replicas.committed_reads import ReadBatches
from qanat.connection.consuming.epoch_ends import epoch_end
from qanat.connection.deadline import Deadline
from qanat.connection.faults import check
from qanat.connection.offsets import EARLIEST, LATEST, list_offsets
from qanat.edge.push_session import Place
from qanat.edge.resume import Extent, Resumed, resume
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import OffsetOutOfRangeError
from qanat.model.ids import LeaderEpoch, Offset, TopicId, TopicPartition
from qanat.wire.kafka.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from qanat.wire.kafka.registry import ApiKey

if TYPE_CHECKING:
    from qanat.broker.replicas.partition import Partition
    from qanat.servers.push.local_cluster import LocalCluster

_WAIT_MS = 5_000
"""How long another leader may park a fetch."""


async def fetch_from_leader(
    cluster: LocalCluster, node_id: int, where: tuple[TopicPartition, str, int], max_bytes: int
) -> ReadBatches:
    """Fetch a partition of the topic with an id, from an offset on, from another broker; empty where no records came.
    It waits for them."""
    at, topic_id, offset = where
    wanted = FetchPartition(at.partition, fetch_offset=offset, partition_max_bytes=max_bytes)
    request = FetchRequest(
        max_wait_ms=_WAIT_MS,
        min_bytes=1,
        max_bytes=max_bytes,
        isolation_level=1,
        topics=[FetchTopic(at.topic, TopicId.parse(topic_id).value.bytes, partitions=[wanted])],
    )
    link = cluster.link_alone(node_id)
    try:
        response: FetchResponse = await link.call(
            ApiKey.FETCH, request, Deadline.after(_WAIT_MS / 1000 + 10), at_most=SERVED[ApiKey.FETCH].last_version
        )
    finally:
        link.abort()
        cluster.forget(link)
    check(f"fetch of {at}", response.error_code)
    (row,) = response.responses[0].partitions
    if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
        raise OffsetOutOfRangeError(f"{at} does not hold offset {offset}")
    check(f"fetch of {at}", row.error_code)
    views = [memoryview(row.records)] if row.records else []  # type: ignore[arg-type]
    return ReadBatches(views, row.aborted_transactions or (), offset)


# Where to begin


async def first_offset(cluster: LocalCluster, at: TopicPartition, *, is_earliest: bool) -> int:
    """Where a subscriber without a position begins."""
    moment = EARLIEST if is_earliest else LATEST
    found = await list_offsets(cluster, at.topic, {at.partition: moment}, cluster.deadline(), is_committed_only=True)
    return found[at.partition].offset


def resumed_here(partition: Partition, place: Place) -> Resumed:
    """Where a subscriber continues in the log of this broker."""
    log = partition.log
    ended: int | None = None
    if place.epoch >= 0:
        end = log.epochs.end_of(LeaderEpoch(place.epoch), Offset(log.end_offset))
        ended = end.end_offset if end.end_offset >= 0 else None
    return resume(place.offset, Extent(log.log_start_offset, max(log.high_watermark, log.log_start_offset), ended))


async def resumed_elsewhere(
    cluster: LocalCluster, node_id: int, at: TopicPartition, place: Place
) -> tuple[Resumed, int]:
    """Where a subscriber continues in the log of another leader, and where that log begins."""
    deadline = cluster.deadline()
    bounds = await list_offsets(cluster, at.topic, {at.partition: EARLIEST}, deadline)
    ends = await list_offsets(cluster, at.topic, {at.partition: LATEST}, deadline)
    ended: int | None = None
    if place.epoch >= 0:
        found = await epoch_end(await cluster.node_link(node_id, deadline), at, -1, place.epoch, deadline)
        check(f"epochs of {at}", found.error_code)
        ended = found.end_offset if found.end_offset >= 0 else None
    start = bounds[at.partition].offset
    return resume(place.offset, Extent(start, ends[at.partition].offset, ended)), start
