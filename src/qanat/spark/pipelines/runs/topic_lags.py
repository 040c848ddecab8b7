"""Lag of a position in topics: unread records, and the age of the oldest of them, as the brokers know it."""

from __future__ import annotations

from collections.abc import Mapping

from qanat.connection.cluster import Cluster
from qanat.connection.deadline import Deadline
from qanat.connection.faults import RefusedError
from qanat.connection.fetching import FetchLimits, fetch
from qanat.connection.offsets import LATEST, by_leader, list_offsets
from qanat.model.pipeline_runs import TopicLag

_ONE_BATCH = FetchLimits(max_wait_ms=0, partition_bytes=1, is_committed_only=True)
_PARTITIONS_MAX = 64
"""Of how many partitions the oldest unread record is looked up; with more, of those that have the most."""


async def topic_lags(
    cluster: Cluster, offsets: Mapping[str, Mapping[str, int]], now_ms: int, deadline: Deadline
) -> dict[str, TopicLag]:
    """The lag by topic; topics that the cluster does not have, or does not show, are left out."""
    found: dict[str, TopicLag] = {}
    for topic, positions in offsets.items():
        try:
            found[topic] = await _lag(cluster, topic, {int(one): at for one, at in positions.items()}, now_ms, deadline)
        except RefusedError as fault:
            if fault.is_retriable:
                raise
    return found


async def _lag(cluster: Cluster, topic: str, positions: Mapping[int, int], now_ms: int, deadline: Deadline) -> TopicLag:
    ends = await list_offsets(cluster, topic, dict.fromkeys(positions, LATEST), deadline, is_committed_only=True)
    unread = {number: ends[number].offset - at for number, at in positions.items() if ends[number].offset > at}
    if not unread:
        return TopicLag(0, 0.0)
    chosen = sorted(unread, key=lambda number: -unread[number])[:_PARTITIONS_MAX]
    view = await cluster.known_topic(topic, deadline)
    oldest: list[int] = []
    for leader, numbers in by_leader(view, dict.fromkeys(chosen)).items():
        link = await cluster.node_link(leader, deadline)
        for answer in await fetch(link, topic, {one: positions[one] for one in numbers}, _ONE_BATCH, deadline):
            oldest += [record.timestamp for record in answer.records[:1]]
    seconds = max(0.0, (now_ms - min(oldest)) / 1000) if oldest else None
    return TopicLag(sum(unread.values()), seconds)
