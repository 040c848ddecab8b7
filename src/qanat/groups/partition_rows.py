"""Assigned partitions as rows of a topic each, the form that records have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from qanat.groups.consumer.records import Partitions, TopicIdPartition


class TopicRow(Protocol):
    """A topic and some of its partitions."""

    topic_id: bytes
    partitions: list[int]


def by_topic(partitions: Partitions) -> dict[bytes, list[int]]:
    """The numbers of the partitions of each topic."""
    rows: dict[bytes, list[int]] = {}
    for at in partitions:
        rows.setdefault(at.topic_id, []).append(at.partition)
    return rows


def in_order(rows: Sequence[TopicRow]) -> Partitions:
    """The partitions of all rows; Kafka writes topics in any order."""
    return tuple(sorted(TopicIdPartition(bytes(row.topic_id), number) for row in rows for number in row.partitions))
