"""Records of groups of the new protocol as bytes in `__consumer_offsets`, and back.

Kafka before 4.1 wrote the topics of a group into a record of their own; that kind is skipped.
"""

from __future__ import annotations

from typing import Any, assert_never

from qanat.groups.consumer.records import (
    ClassicMembership,
    ConsumerGroupRecord,
    ConsumerMemberRecord,
    ConsumerRecord,
    ConsumerTombstone,
    CurrentAssignmentRecord,
    ExpressionRecord,
    MemberState,
    RecordKind,
    TargetAssignmentRecord,
    TargetEpochRecord,
)
from qanat.groups.partition_rows import by_topic, in_order
from qanat.wire.kafka.messages import consumer_offsets as wire
from qanat.wire.kafka.records import CONSUMER_OFFSETS, read_value, write_key, write_value

_GROUP_KEYS: dict[RecordKind, Any] = {
    RecordKind.GROUP: wire.ConsumerGroupMetadataKey,
    RecordKind.TOPICS: wire.ConsumerGroupPartitionMetadataKey,
    RecordKind.TARGET_EPOCH: wire.ConsumerGroupTargetAssignmentMetadataKey,
}
_NAMED_KEYS: dict[RecordKind, Any] = {
    RecordKind.MEMBER: wire.ConsumerGroupMemberMetadataKey,
    RecordKind.TARGET_ASSIGNMENT: wire.ConsumerGroupTargetAssignmentMemberKey,
    RecordKind.CURRENT_ASSIGNMENT: wire.ConsumerGroupCurrentMemberAssignmentKey,
    RecordKind.EXPRESSION: wire.ConsumerGroupRegularExpressionKey,
}


def is_ours(kind: int) -> bool:
    return kind in _GROUP_KEYS or kind in _NAMED_KEYS


def encode(record: ConsumerRecord) -> tuple[bytes, bytes | None]:
    """Key and value; a tombstone has no value."""
    if isinstance(record, ConsumerTombstone):
        return _key(record.kind, record.group_id, record.name), None
    kind, name, value = _value(record)
    return _key(kind, record.group_id, name), write_value(CONSUMER_OFFSETS, kind, value)


def _key(kind: RecordKind, group_id: str, name: str) -> bytes:
    key = _GROUP_KEYS[kind](group_id) if kind in _GROUP_KEYS else _NAMED_KEYS[kind](group_id, name)
    return write_key(CONSUMER_OFFSETS, key)


def _value(record: ConsumerRecord) -> tuple[RecordKind, str, Any]:
    """The record's kind, the second part of its key where there is one, and its value."""
    match record:
        case ConsumerGroupRecord():
            return RecordKind.GROUP, "", wire.ConsumerGroupMetadataValue(record.epoch, record.topics_digest)
        case ConsumerMemberRecord():
            return RecordKind.MEMBER, record.member_id, _member_value(record)
        case TargetEpochRecord():
            return RecordKind.TARGET_EPOCH, "", wire.ConsumerGroupTargetAssignmentMetadataValue(record.epoch)
        case TargetAssignmentRecord():
            rows = [wire.TargetTopicPartition(*row) for row in by_topic(record.partitions).items()]
            value = wire.ConsumerGroupTargetAssignmentMemberValue(rows)
            return RecordKind.TARGET_ASSIGNMENT, record.member_id, value
        case CurrentAssignmentRecord():
            return RecordKind.CURRENT_ASSIGNMENT, record.member_id, _current_value(record)
        case ExpressionRecord():
            topics = list(record.topics)
            expression = wire.ConsumerGroupRegularExpressionValue(topics, record.revision, record.timestamp_ms)
            return RecordKind.EXPRESSION, record.expression, expression
        case ConsumerTombstone():
            raise AssertionError("a tombstone has no value")
    assert_never(record)


def _member_value(record: ConsumerMemberRecord) -> wire.ConsumerGroupMemberMetadataValue:
    classic = None
    if record.classic is not None:
        protocols = [wire.ClassicProtocol(*row) for row in record.classic.protocols]
        classic = wire.ClassicMemberMetadata(record.classic.session_timeout_ms, protocols)
    return wire.ConsumerGroupMemberMetadataValue(
        instance_id=record.instance_id,
        rack_id=record.rack_id,
        client_id=record.client_id,
        client_host=record.client_host,
        subscribed_topic_names=list(record.topics),
        subscribed_topic_regex=record.expression,
        rebalance_timeout_ms=record.rebalance_timeout_ms,
        server_assignor=record.assignor,
        classic_member_metadata=classic,
    )


def _current_value(record: CurrentAssignmentRecord) -> wire.ConsumerGroupCurrentMemberAssignmentValue:
    return wire.ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=record.epoch,
        previous_member_epoch=record.previous_epoch,
        state=record.state,
        assigned_partitions=[wire.CurrentTopicPartitions(*row) for row in by_topic(record.assigned).items()],
        partitions_pending_revocation=[wire.CurrentTopicPartitions(*row) for row in by_topic(record.revoking).items()],
    )


def decode(kind: RecordKind, key: Any, value: bytes | None) -> ConsumerRecord | None:
    """A record from its key's fields and its value; None for the kind that is skipped."""
    name = "" if kind in _GROUP_KEYS else key.regular_expression if kind is RecordKind.EXPRESSION else key.member_id
    if value is None:
        return ConsumerTombstone(key.group_id, kind, name)
    if kind is RecordKind.TOPICS:
        return None
    return _record(kind, key.group_id, name, read_value(CONSUMER_OFFSETS, kind, value))


def _record(kind: RecordKind, group_id: str, name: str, found: Any) -> ConsumerRecord:
    match kind:
        case RecordKind.GROUP:
            return ConsumerGroupRecord(group_id, found.epoch, found.metadata_hash)
        case RecordKind.MEMBER:
            return _member(group_id, name, found)
        case RecordKind.TARGET_EPOCH:
            return TargetEpochRecord(group_id, found.assignment_epoch)
        case RecordKind.TARGET_ASSIGNMENT:
            return TargetAssignmentRecord(group_id, name, in_order(found.topic_partitions))
        case RecordKind.CURRENT_ASSIGNMENT:
            return CurrentAssignmentRecord(
                group_id,
                name,
                found.member_epoch,
                found.previous_member_epoch,
                _state(found.state),
                in_order(found.assigned_partitions),
                in_order(found.partitions_pending_revocation),
            )
        case RecordKind.EXPRESSION:
            return ExpressionRecord(group_id, name, tuple(found.topics), found.version, found.timestamp)
        case RecordKind.TOPICS:
            raise AssertionError("records of this kind are passed over")
    assert_never(kind)


def _state(number: int) -> MemberState:
    """A state of a later Kafka waits for something: the member's next heartbeat leads on."""
    return MemberState(number) if number in MemberState.__members__.values() else MemberState.UNRELEASED


def _member(group_id: str, member_id: str, found: wire.ConsumerGroupMemberMetadataValue) -> ConsumerMemberRecord:
    classic = None
    if found.classic_member_metadata is not None:
        theirs = found.classic_member_metadata
        protocols = tuple((one.name, bytes(one.metadata)) for one in theirs.supported_protocols)
        classic = ClassicMembership(theirs.session_timeout_ms, protocols)
    return ConsumerMemberRecord(
        group_id,
        member_id,
        found.instance_id,
        found.rack_id,
        found.client_id,
        found.client_host,
        tuple(found.subscribed_topic_names),
        found.subscribed_topic_regex or "",
        found.rebalance_timeout_ms,
        found.server_assignor,
        classic,
    )
