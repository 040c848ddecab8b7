"""Expiry and deletion of offsets and groups: by request, with their topic, or by age (KIP-211).

An offset ages only while no member can need it: from the moment when the group
lost its last member, or since its commit where the group's consumers do not
read the topic, or where the group never had members. One that was committed with
`KEPT_OFFSET` as its metadata, alone or before a semicolon, does not age at all: it ends by request or with its topic.

Differs from Kafka: an offset committed to a group that is already empty ages
from its commit and not from the moment when the group became empty.
"""

from __future__ import annotations

from collections.abc import Sequence

from qanat.groups.classic.group import ClassicGroup
from qanat.groups.classic.states import GroupState
from qanat.groups.consumer.group import ConsumerGroup
from qanat.groups.consumer.removal import remove_group
from qanat.groups.decision_builder import DecisionBuilder
from qanat.groups.records import OffsetCommitRecord, OffsetTombstone
from qanat.groups.replies import DeleteGroupReply
from qanat.groups.requests import DeleteGroup
from qanat.groups.share.group import ShareGroup
from qanat.groups.share.removal import remove_group as remove_share_group
from qanat.groups.timers import Timer, TimerKind
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import KEPT_OFFSET, NO_TIMESTAMP, TopicPartition

_KEPT_WITH_MORE = f"{KEPT_OFFSET};"


def delete_group(builder: DecisionBuilder, request: DeleteGroup) -> DeleteGroupReply:
    group = builder.state.groups.get(request.group_id)
    consumers = builder.state.ledger.consumers.get(request.group_id)
    shares = builder.state.ledger.shares.get(request.group_id)
    if shares is not None:
        return _delete_shares(builder, shares)
    if group is None and consumers is None:
        return DeleteGroupReply(request.group_id, ErrorCode.GROUP_ID_NOT_FOUND)
    if (group is not None and group.state is not GroupState.EMPTY) or (consumers is not None and consumers.members):
        return DeleteGroupReply(request.group_id, ErrorCode.NON_EMPTY_GROUP)
    for partition in builder.state.ledger.offsets.partitions_of(request.group_id):
        _forget(builder, request.group_id, partition)
    if group is not None:
        builder.delete_group(group)
    if consumers is not None:
        remove_group(builder, consumers)
    return DeleteGroupReply(request.group_id)


def _delete_shares(builder: DecisionBuilder, group: ShareGroup) -> DeleteGroupReply:
    """Share groups are deleted by request alone. The shell deletes their partitions' state beforehand."""
    if group.members:
        return DeleteGroupReply(group.group_id, ErrorCode.NON_EMPTY_GROUP)
    remove_share_group(builder, group)
    return DeleteGroupReply(group.group_id)


def forget_deleted(
    builder: DecisionBuilder, group_id: str, partitions: Sequence[TopicPartition], deleted_ms: int
) -> None:
    """The topic was deleted: its offsets would mislead readers of a new topic of its name, whose own are newer."""
    for partition in partitions:
        record = builder.state.ledger.offsets.get(group_id, partition)
        if record is None or record.commit_timestamp_ms <= deleted_ms:
            _forget(builder, group_id, partition)


def expire(builder: DecisionBuilder) -> None:
    """Remove offsets that are too old, then groups without members and offsets."""
    for consumers in list(builder.state.ledger.consumers.values()):
        _expire_consumers(builder, consumers)
    for group in list(builder.state.groups.values()):
        for record in builder.state.ledger.offsets.of_group(group.group_id):
            if _is_expired(builder, group, record):
                _forget(builder, group.group_id, TopicPartition(record.topic, record.partition))
        if _is_over(builder, group):
            builder.delete_group(group)
    schedule_next(builder)


def _expire_consumers(builder: DecisionBuilder, group: ConsumerGroup) -> None:
    """The same for a group of the new protocol, whose offsets age from their commit while no member reads the topic."""
    subscribed = group.subscribed_topics()
    for record in builder.state.ledger.offsets.of_group(group.group_id):
        at = TopicPartition(record.topic, record.partition)
        is_unused = record.topic not in subscribed and not builder.state.ledger.offsets.is_pending(group.group_id, at)
        if is_unused and _is_old(builder, record, record.commit_timestamp_ms):
            _forget(builder, group.group_id, at)
    if not group.members and not builder.state.ledger.offsets.partitions_of(group.group_id):
        remove_group(builder, group)


def schedule_next(builder: DecisionBuilder) -> None:
    interval_ms = builder.state.settings.offsets_retention_check_interval_ms
    builder.state.timers.schedule(Timer(TimerKind.RETENTION), builder.now.steady_ms + interval_ms)


def _is_expired(builder: DecisionBuilder, group: ClassicGroup, record: OffsetCommitRecord) -> bool:
    since_ms = _ages_since(group, record)
    partition = TopicPartition(record.topic, record.partition)
    if since_ms is None or builder.state.ledger.offsets.is_pending(group.group_id, partition):
        return False
    return _is_old(builder, record, since_ms)


def _is_old(builder: DecisionBuilder, record: OffsetCommitRecord, since_ms: int) -> bool:
    if record.metadata == KEPT_OFFSET or record.metadata.startswith(_KEPT_WITH_MORE):
        return False
    if record.expire_timestamp_ms != NO_TIMESTAMP:
        return builder.now.wall_ms >= record.expire_timestamp_ms
    return builder.now.wall_ms - since_ms >= builder.state.settings.offsets_retention_ms


def _ages_since(group: ClassicGroup, record: OffsetCommitRecord) -> int | None:
    """When the offset's age starts; None while it is or may be in use."""
    if group.protocol_type is None:
        return record.commit_timestamp_ms
    if group.state is GroupState.EMPTY:
        return max(group.state_timestamp_ms, record.commit_timestamp_ms)
    is_known = group.state is GroupState.STABLE and group.subscribed_topics is not None
    return record.commit_timestamp_ms if is_known and not group.is_subscribed(record.topic) else None


def _is_over(builder: DecisionBuilder, group: ClassicGroup) -> bool:
    has_offsets = builder.state.ledger.offsets.partitions_of(group.group_id) != []
    return group.state is GroupState.EMPTY and not group.pending_members and not has_offsets


def _forget(builder: DecisionBuilder, group_id: str, partition: TopicPartition) -> None:
    builder.write(OffsetTombstone(group_id, partition.topic, partition.partition))
