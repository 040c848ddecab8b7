"""How offsets and groups end: by request, with their topic, or by age (KIP-211).

An offset ages only while nobody can need it: from the moment when the group
lost its last member, or since its commit where the group's consumers do not
read the topic, or where the group never had members. One that was committed with
`KEPT_OFFSET` as its metadata does not age at all: it ends by request or with its topic.

Differs from Kafka: an offset committed to a group that is already empty ages
from its commit and not from the moment when the group became empty.
"""

from __future__ import annotations

from collections.abc import Sequence

from qanat.groups.classic.group import ClassicGroup
from qanat.groups.classic.states import GroupState
from qanat.groups.consumer.group import ConsumerGroup
from qanat.groups.consumer.removal import bury
from qanat.groups.records import OffsetCommitRecord, OffsetTombstone
from qanat.groups.replies import DeleteGroupReply
from qanat.groups.requests import DeleteGroup
from qanat.groups.share.group import ShareGroup
from qanat.groups.share.removal import bury as bury_shares
from qanat.groups.timers import Timer, TimerKind
from qanat.groups.turn import Turn
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import KEPT_OFFSET, NO_TIMESTAMP, TopicPartition


def delete_group(turn: Turn, request: DeleteGroup) -> DeleteGroupReply:
    group = turn.state.groups.get(request.group_id)
    consumers = turn.state.ledger.consumers.get(request.group_id)
    shares = turn.state.ledger.shares.get(request.group_id)
    if shares is not None:
        return _delete_shares(turn, shares)
    if group is None and consumers is None:
        return DeleteGroupReply(request.group_id, ErrorCode.GROUP_ID_NOT_FOUND)
    if (group is not None and group.state is not GroupState.EMPTY) or (consumers is not None and consumers.members):
        return DeleteGroupReply(request.group_id, ErrorCode.NON_EMPTY_GROUP)
    for partition in turn.state.ledger.offsets.partitions_of(request.group_id):
        _forget(turn, request.group_id, partition)
    if group is not None:
        turn.delete_group(group)
    if consumers is not None:
        bury(turn, consumers)
    return DeleteGroupReply(request.group_id)


def _delete_shares(turn: Turn, group: ShareGroup) -> DeleteGroupReply:
    """Share groups end by request alone. What partitions know of them is the shell's to forget, beforehand."""
    if group.members:
        return DeleteGroupReply(group.group_id, ErrorCode.NON_EMPTY_GROUP)
    bury_shares(turn, group)
    return DeleteGroupReply(group.group_id)


def forget_deleted(turn: Turn, group_id: str, partitions: Sequence[TopicPartition], deleted_ms: int) -> None:
    """Their topic is gone: the offsets would mislead readers of a new one under its name, whose own are newer."""
    for partition in partitions:
        record = turn.state.ledger.offsets.get(group_id, partition)
        if record is None or record.commit_timestamp_ms <= deleted_ms:
            _forget(turn, group_id, partition)


def expire(turn: Turn) -> None:
    """Remove offsets that are too old, then groups that have neither members nor offsets left."""
    for consumers in list(turn.state.ledger.consumers.values()):
        _expire_consumers(turn, consumers)
    for group in list(turn.state.groups.values()):
        for record in turn.state.ledger.offsets.of_group(group.group_id):
            if _is_expired(turn, group, record):
                _forget(turn, group.group_id, TopicPartition(record.topic, record.partition))
        if _is_over(turn, group):
            turn.delete_group(group)
    schedule_next(turn)


def _expire_consumers(turn: Turn, group: ConsumerGroup) -> None:
    """The same for a group of the new protocol, whose offsets age from their commit while nobody reads the topic."""
    subscribed = group.subscribed_topics()
    for record in turn.state.ledger.offsets.of_group(group.group_id):
        at = TopicPartition(record.topic, record.partition)
        is_unused = record.topic not in subscribed and not turn.state.ledger.offsets.is_pending(group.group_id, at)
        if is_unused and _is_old(turn, record, record.commit_timestamp_ms):
            _forget(turn, group.group_id, at)
    if not group.members and not turn.state.ledger.offsets.partitions_of(group.group_id):
        bury(turn, group)


def schedule_next(turn: Turn) -> None:
    interval_ms = turn.state.settings.offsets_retention_check_interval_ms
    turn.state.timers.schedule(Timer(TimerKind.RETENTION), turn.now.steady_ms + interval_ms)


def _is_expired(turn: Turn, group: ClassicGroup, record: OffsetCommitRecord) -> bool:
    since_ms = _ages_since(group, record)
    partition = TopicPartition(record.topic, record.partition)
    if since_ms is None or turn.state.ledger.offsets.is_pending(group.group_id, partition):
        return False
    return _is_old(turn, record, since_ms)


def _is_old(turn: Turn, record: OffsetCommitRecord, since_ms: int) -> bool:
    if record.metadata == KEPT_OFFSET:
        return False
    if record.expire_timestamp_ms != NO_TIMESTAMP:
        return turn.now.wall_ms >= record.expire_timestamp_ms
    return turn.now.wall_ms - since_ms >= turn.state.settings.offsets_retention_ms


def _ages_since(group: ClassicGroup, record: OffsetCommitRecord) -> int | None:
    """From when on the offset's age counts; None while it is in use or may be."""
    if group.protocol_type is None:
        return record.commit_timestamp_ms
    if group.state is GroupState.EMPTY:
        return max(group.state_timestamp_ms, record.commit_timestamp_ms)
    is_known = group.state is GroupState.STABLE and group.subscribed_topics is not None
    return record.commit_timestamp_ms if is_known and not group.is_subscribed(record.topic) else None


def _is_over(turn: Turn, group: ClassicGroup) -> bool:
    has_offsets = turn.state.ledger.offsets.partitions_of(group.group_id) != []
    return group.state is GroupState.EMPTY and not group.pending_members and not has_offsets


def _forget(turn: Turn, group_id: str, partition: TopicPartition) -> None:
    turn.write(OffsetTombstone(group_id, partition.topic, partition.partition))
