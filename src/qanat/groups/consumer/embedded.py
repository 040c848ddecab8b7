"""The embedded protocol of classic consumers inside JoinGroup and SyncGroup, read and written by the coordinator.

Only in groups that mix both protocols: elsewhere these bytes stay opaque.
"""

from __future__ import annotations

from dataclasses import dataclass

from qanat.groups.consumer.records import Partitions, TopicIdPartition
from qanat.groups.decision_builder import TopicView
from qanat.model.errors import MalformedMessageError
from qanat.wire.kafka.messages.consumer_protocol import (
    AssignmentTopicPartition,
    ConsumerProtocolAssignment,
    read_consumer_protocol_assignment,
    read_consumer_protocol_subscription,
    write_consumer_protocol_assignment,
)

_VERSION_BYTES = 2
_NEWEST = 3


@dataclass(frozen=True, slots=True)
class Subscription:
    """A classic consumer's subscription at its join."""

    version: int
    topics: tuple[str, ...]
    owned: Partitions
    rack_id: str | None


def read_subscription(content: bytes, topics: TopicView) -> Subscription | None:
    """None where the bytes are no consumer's."""
    version = _version(content)
    if version is None:
        return None
    try:
        found = read_consumer_protocol_subscription(memoryview(content), version, _VERSION_BYTES)
    except MalformedMessageError:
        return None
    owned = [(one.topic, one.partitions) for one in found.owned_partitions]
    return Subscription(version, tuple(found.topics), _by_id(owned, topics), found.rack_id)


def read_assignment(content: bytes, topics: TopicView) -> Partitions | None:
    """None where the bytes are no consumer's; an empty assignment may have no bytes at all."""
    if not content:
        return ()
    version = _version(content)
    if version is None:
        return None
    try:
        found = read_consumer_protocol_assignment(memoryview(content), version, _VERSION_BYTES)
    except MalformedMessageError:
        return None
    return _by_id([(one.topic, one.partitions) for one in found.assigned_partitions], topics)


def write_assignment(partitions: Partitions, topics: TopicView, version: int) -> bytes:
    """Deleted topics are left out."""
    rows: dict[str, list[int]] = {}
    for at in partitions:
        name = topics.topic_name(at.topic_id)
        if name is not None:
            rows.setdefault(name, []).append(at.partition)
    value = ConsumerProtocolAssignment([AssignmentTopicPartition(*row) for row in rows.items()], None)
    return version.to_bytes(_VERSION_BYTES, "big") + b"".join(write_consumer_protocol_assignment(value, version))


def _version(content: bytes) -> int | None:
    """Later versions only add to the end: they are read as the newest known one."""
    if len(content) < _VERSION_BYTES:
        return None
    version = int.from_bytes(content[:_VERSION_BYTES], "big", signed=True)
    return None if version < 0 else min(version, _NEWEST)


def _by_id(rows: list[tuple[str, list[int]]], topics: TopicView) -> Partitions:
    """Deleted topics are left out."""
    found = {
        TopicIdPartition(topic_id, number): None
        for name, numbers in rows
        if (topic_id := topics.topic_id(name)) is not None
        for number in numbers
    }
    return tuple(sorted(found))
