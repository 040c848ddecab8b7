"""OffsetCommit, TxnOffsetCommit, OffsetFetch, OffsetDelete.

- OffsetCommit 2 to 4   the client says how long to keep the offset
- OffsetCommit 6        the leader epoch is stored
- OffsetCommit 7        static members are fenced (KIP-345)
- OffsetCommit 9        an unknown group is GROUP_ID_NOT_FOUND; members of the new protocol (`consumer.offsets`)
- OffsetFetch 9         likewise
- OffsetFetch 7         `require_stable` (KIP-447)

The group's state decides who may commit: a member of the current generation
always, except while the group waits for its assignment; any client, with
generation -1, while the group has no members.
"""

from __future__ import annotations

from qanat.groups.classic.group import ClassicGroup
from qanat.groups.classic.membership import generation_error
from qanat.groups.classic.rebalance import renew_session
from qanat.groups.classic.states import GroupState
from qanat.groups.consumer import offsets as consumer_offsets
from qanat.groups.consumer.group import ConsumerGroup
from qanat.groups.decision_builder import DecisionBuilder
from qanat.groups.decisions import TransactionalProducer
from qanat.groups.records import OffsetCommitRecord, OffsetTombstone
from qanat.groups.replies import CommitReply, DeleteOffsetsReply, FetchedOffset, FetchReply, PartitionOutcome, refused
from qanat.groups.requests import CommitOffsets, CommitTransactionOffsets, DeleteOffsets, FetchOffsets, OffsetToCommit
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import NO_TIMESTAMP, TopicPartition

OFFSETS_AT_ONCE = 500
"""Offsets in one reply, where a client requests all of a group; it gets the names of the rest."""


def commit(builder: DecisionBuilder, request: CommitOffsets) -> CommitReply:
    error = _commit_error(builder, request)
    if error is not ErrorCode.NONE:
        return _refused(request, error)
    expire_ms = builder.now.wall_ms + request.retention_ms if request.retention_ms != NO_TIMESTAMP else NO_TIMESTAMP
    outcomes = []
    for one in request.offsets:
        error = _offset_error(builder, one)
        if error is ErrorCode.NONE:
            builder.write(_record(builder, request.group_id, one, expire_ms))
        outcomes.append(PartitionOutcome(one.topic, one.partition, error))
    _found_or_renew(builder, request)
    return CommitReply(tuple(outcomes))


def commit_in_transaction(builder: DecisionBuilder, request: CommitTransactionOffsets) -> CommitReply:
    error = _transaction_commit_error(builder, request)
    if error is not ErrorCode.NONE:
        return _refused(request, error)
    producer = TransactionalProducer(request.producer_id, request.producer_epoch)
    outcomes = []
    for one in request.offsets:
        error = _offset_error(builder, one)
        if error is ErrorCode.NONE:
            builder.write_in_transaction(_record(builder, request.group_id, one, NO_TIMESTAMP), producer)
            _found(builder, request.group_id)
        outcomes.append(PartitionOutcome(one.topic, one.partition, error))
    return CommitReply(tuple(outcomes))


def _commit_error(builder: DecisionBuilder, request: CommitOffsets) -> ErrorCode:
    if request.group_id in builder.state.ledger.shares:
        return ErrorCode.GROUP_ID_NOT_FOUND
    consumers = builder.state.ledger.consumers.get(request.group_id)
    if consumers is not None:
        return consumer_offsets.commit_error(consumers, request)
    group = builder.state.groups.get(request.group_id)
    if group is None:
        if request.generation_id < 0:
            return ErrorCode.NONE
        return ErrorCode.GROUP_ID_NOT_FOUND if request.knows_group_id_not_found else ErrorCode.ILLEGAL_GENERATION
    if group.state is GroupState.EMPTY and request.generation_id < 0:
        return ErrorCode.NONE
    if request.generation_id < 0 and request.member_id == "" and request.instance_id is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    error = generation_error(group, request.member_id, request.instance_id, request.generation_id)
    if error is ErrorCode.NONE and group.state is GroupState.COMPLETING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return error


def _transaction_commit_error(builder: DecisionBuilder, request: CommitTransactionOffsets) -> ErrorCode:
    """Producers from before KIP-447 name no member; the transaction alone fences them."""
    if request.group_id in builder.state.ledger.shares:
        return ErrorCode.GROUP_ID_NOT_FOUND
    consumers = builder.state.ledger.consumers.get(request.group_id)
    if consumers is not None:
        return consumer_offsets.transaction_commit_error(consumers, request)
    group = builder.state.groups.get(request.group_id)
    if group is None:
        return ErrorCode.NONE if request.generation_id < 0 else ErrorCode.ILLEGAL_GENERATION
    is_anonymous = request.generation_id < 0 and request.member_id == "" and request.instance_id is None
    if is_anonymous or (group.state is GroupState.EMPTY and request.generation_id < 0):
        return ErrorCode.NONE
    return generation_error(group, request.member_id, request.instance_id, request.generation_id)


def _offset_error(builder: DecisionBuilder, one: OffsetToCommit) -> ErrorCode:
    count = builder.state.topics.partition_count(one.topic)
    if count is None or not 0 <= one.partition < count:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    # Kafka counts UTF-16 units, whatever the setting's name says.
    units = len((one.metadata or "").encode("utf-16-le")) // 2
    return (
        ErrorCode.OFFSET_METADATA_TOO_LARGE
        if units > builder.state.settings.offset_metadata_max_bytes
        else ErrorCode.NONE
    )


def _record(builder: DecisionBuilder, group_id: str, one: OffsetToCommit, expire_ms: int) -> OffsetCommitRecord:
    return OffsetCommitRecord(
        group_id,
        one.topic,
        one.partition,
        one.offset,
        one.leader_epoch,
        one.metadata or "",
        builder.now.wall_ms,
        expire_ms,
    )


def _found_or_renew(builder: DecisionBuilder, request: CommitOffsets) -> None:
    """A commit counts as a classic heartbeat; the first one of a group without members creates it."""
    group = _found(builder, request.group_id)
    member = group.members.get(request.member_id) if group is not None else None
    if group is not None and member is not None:
        renew_session(builder, group, member)


def _found(builder: DecisionBuilder, group_id: str) -> ClassicGroup | None:
    """The classic group that has the offsets, created if need be; None where it is one of the new protocol."""
    return None if group_id in builder.state.ledger.consumers else builder.live_group(group_id)


def _refused(request: CommitOffsets | CommitTransactionOffsets, error: ErrorCode) -> CommitReply:
    reply = refused(request, error)
    assert isinstance(reply, CommitReply)
    return reply


def fetch(builder: DecisionBuilder, request: FetchOffsets) -> FetchReply:
    """Unknown groups and partitions have the offset -1; errors are a pending transaction, or a stale member."""
    offsets = builder.state.ledger.offsets
    consumers = builder.state.ledger.consumers.get(request.group_id)
    error = ErrorCode.NONE if consumers is None else consumer_offsets.fetch_error(consumers, request)
    if error is not ErrorCode.NONE:
        return FetchReply(request.group_id, error)
    if request.partitions is None:
        wanted = offsets.committed_of(request.group_id)
        if len(wanted) > OFFSETS_AT_ONCE:
            return FetchReply(request.group_id, unread=tuple(wanted))
    else:
        wanted = list(request.partitions)
    return FetchReply(request.group_id, offsets=tuple(_fetched(builder, request, partition) for partition in wanted))


def _fetched(builder: DecisionBuilder, request: FetchOffsets, partition: TopicPartition) -> FetchedOffset:
    offsets = builder.state.ledger.offsets
    topic, number = partition.topic, partition.partition
    if request.require_stable and offsets.is_pending(request.group_id, partition):
        return FetchedOffset(topic, number, error=ErrorCode.UNSTABLE_OFFSET_COMMIT)
    record = offsets.get(request.group_id, partition)
    if record is None:
        return FetchedOffset(topic, number)
    return FetchedOffset(topic, number, record.offset, record.leader_epoch, record.metadata)


def delete_offsets(builder: DecisionBuilder, request: DeleteOffsets) -> DeleteOffsetsReply:
    """Only consumers reveal what they read; other kinds of group must be empty."""
    group: ClassicGroup | ConsumerGroup | None = builder.state.groups.get(request.group_id)
    if group is None:
        group = builder.state.ledger.consumers.get(request.group_id)
    if group is None:
        return DeleteOffsetsReply(ErrorCode.GROUP_ID_NOT_FOUND)
    if isinstance(group, ClassicGroup) and group.state is not GroupState.EMPTY and not group.is_consumer_group:
        return DeleteOffsetsReply(ErrorCode.NON_EMPTY_GROUP)
    outcomes = []
    offsets = builder.state.ledger.offsets
    for partition in request.partitions:
        error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if group.is_subscribed(partition.topic) else ErrorCode.NONE
        if not 0 <= partition.partition < (builder.state.topics.partition_count(partition.topic) or 0):
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        outcomes.append(PartitionOutcome(partition.topic, partition.partition, error))
        is_held = offsets.get(group.group_id, partition) or offsets.is_pending(group.group_id, partition)
        if error is ErrorCode.NONE and is_held:
            builder.write(OffsetTombstone(group.group_id, partition.topic, partition.partition))
    return DeleteOffsetsReply(partitions=tuple(outcomes))
