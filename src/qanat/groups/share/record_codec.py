"""Records of share groups as bytes in `__consumer_offsets`, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

from qanat.groups.partition_rows import by_topic, in_order
from qanat.groups.share.records import (
    ShareCurrentRecord,
    SharedTopic,
    ShareGroupRecord,
    ShareGroupTombstone,
    ShareMemberRecord,
    ShareRecord,
    ShareRecordKind,
    ShareTargetEpochRecord,
    ShareTargetRecord,
    ShareTopicsRecord,
)
from qanat.wire.kafka.messages import consumer_offsets as wire
from qanat.wire.kafka.records import CONSUMER_OFFSETS, read_value, write_key, write_value

_GROUP_KEYS: dict[ShareRecordKind, Any] = {
    ShareRecordKind.GROUP: wire.ShareGroupMetadataKey,
    ShareRecordKind.TARGET_EPOCH: wire.ShareGroupTargetAssignmentMetadataKey,
    ShareRecordKind.TOPICS: wire.ShareGroupStatePartitionMetadataKey,
}
_MEMBER_KEYS: dict[ShareRecordKind, Any] = {
    ShareRecordKind.MEMBER: wire.ShareGroupMemberMetadataKey,
    ShareRecordKind.TARGET_ASSIGNMENT: wire.ShareGroupTargetAssignmentMemberKey,
    ShareRecordKind.CURRENT_ASSIGNMENT: wire.ShareGroupCurrentMemberAssignmentKey,
}
_STABLE = 0
"""The only state of a member of a share group."""


def is_ours(kind: int) -> bool:
    return kind in _GROUP_KEYS or kind in _MEMBER_KEYS


def encode(record: ShareRecord) -> tuple[bytes, bytes | None]:
    """Key and value; a tombstone has no value."""
    if isinstance(record, ShareGroupTombstone):
        return _key(record.kind, record.group_id, record.member_id), None
    kind, member_id, value = _value(record)
    return _key(kind, record.group_id, member_id), write_value(CONSUMER_OFFSETS, kind, value)


def _key(kind: ShareRecordKind, group_id: str, member_id: str) -> bytes:
    key = _GROUP_KEYS[kind](group_id) if kind in _GROUP_KEYS else _MEMBER_KEYS[kind](group_id, member_id)
    return write_key(CONSUMER_OFFSETS, key)


def _value(record: ShareRecord) -> tuple[ShareRecordKind, str, Any]:
    """The record's kind, the member's id where it is about one, and its value."""
    match record:
        case ShareGroupRecord():
            return ShareRecordKind.GROUP, "", wire.ShareGroupMetadataValue(record.epoch, record.topics_digest)
        case ShareMemberRecord():
            member = wire.ShareGroupMemberMetadataValue(
                record.rack_id, record.client_id, record.client_host, list(record.topics)
            )
            return ShareRecordKind.MEMBER, record.member_id, member
        case ShareTargetEpochRecord():
            return ShareRecordKind.TARGET_EPOCH, "", wire.ShareGroupTargetAssignmentMetadataValue(record.epoch)
        case ShareTargetRecord():
            rows = [wire.ShareTargetTopicPartition(*row) for row in by_topic(record.partitions).items()]
            target = wire.ShareGroupTargetAssignmentMemberValue(rows)
            return ShareRecordKind.TARGET_ASSIGNMENT, record.member_id, target
        case ShareCurrentRecord():
            assigned = [wire.ShareCurrentTopicPartitions(*row) for row in by_topic(record.assigned).items()]
            current = wire.ShareGroupCurrentMemberAssignmentValue(
                record.epoch, record.previous_epoch, _STABLE, assigned
            )
            return ShareRecordKind.CURRENT_ASSIGNMENT, record.member_id, current
        case ShareTopicsRecord():
            ready = [wire.TopicPartitionsInfo(one.topic_id, one.name, list(one.partitions)) for one in record.topics]
            return ShareRecordKind.TOPICS, "", wire.ShareGroupStatePartitionMetadataValue(initialized_topics=ready)
        case ShareGroupTombstone():
            raise AssertionError("a tombstone has no value")
    assert_never(record)


def decode(kind: ShareRecordKind, key: Any, value: bytes | None) -> ShareRecord:
    """A record from its key's fields and its value."""
    member_id = key.member_id if kind in _MEMBER_KEYS else ""
    if value is None:
        return ShareGroupTombstone(key.group_id, kind, member_id)
    return _record(kind, key.group_id, member_id, read_value(CONSUMER_OFFSETS, kind, value))


def _record(kind: ShareRecordKind, group_id: str, member_id: str, found: Any) -> ShareRecord:
    match kind:
        case ShareRecordKind.GROUP:
            return ShareGroupRecord(group_id, found.epoch, found.metadata_hash)
        case ShareRecordKind.MEMBER:
            topics = tuple(found.subscribed_topic_names)
            return ShareMemberRecord(group_id, member_id, found.rack_id, found.client_id, found.client_host, topics)
        case ShareRecordKind.TARGET_EPOCH:
            return ShareTargetEpochRecord(group_id, found.assignment_epoch)
        case ShareRecordKind.TARGET_ASSIGNMENT:
            return ShareTargetRecord(group_id, member_id, in_order(found.topic_partitions))
        case ShareRecordKind.CURRENT_ASSIGNMENT:
            assigned = in_order(found.assigned_partitions)
            epochs = (found.member_epoch, found.previous_member_epoch)
            return ShareCurrentRecord(group_id, member_id, *epochs, assigned)
        case ShareRecordKind.TOPICS:
            # Partitions that Kafka was still initializing are initialized by the first fetch.
            return ShareTopicsRecord(group_id, _topics([*found.initialized_topics, *found.initializing_topics]))
    assert_never(kind)


def _topics(rows: Sequence[wire.TopicPartitionsInfo]) -> tuple[SharedTopic, ...]:
    names: dict[bytes, str] = {}
    numbers: dict[bytes, list[int]] = {}
    for row in rows:
        topic_id = bytes(row.topic_id)
        names[topic_id] = row.topic_name
        numbers.setdefault(topic_id, []).extend(row.partitions)
    return tuple(
        SharedTopic(topic_id, names[topic_id], tuple(sorted(dict.fromkeys(numbers[topic_id]))))
        for topic_id in sorted(names, key=lambda one: (names[one], one))
    )
