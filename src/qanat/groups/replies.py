"""Replies of a coordinator, and `refused`: the reply to any request that cannot be served at all."""

from __future__ import annotations

from typing import TypeAlias, assert_never

from msgspec import Struct

from qanat.groups.consumer.records import Partitions
from qanat.groups.records import NO_GENERATION
from qanat.groups.requests import (
    NO_MEMBER_ID,
    AdministratorRequest,
    ChangeSharedTopics,
    CommitOffsets,
    CommitTransactionOffsets,
    ConsumerHeartbeat,
    DeleteGroup,
    DeleteOffsets,
    DescribeConsumerGroup,
    DescribeGroup,
    DescribeShareGroup,
    FetchOffsets,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    ListSharedTopics,
    Request,
    ShareHeartbeat,
    SyncGroup,
)
from qanat.groups.share.records import SharedTopic
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import NO_LEADER_EPOCH, NO_OFFSET, TopicPartition

NO_LEADER = ""
DEAD = "Dead"


class JoinedMember(Struct, frozen=True):
    """A member as the leader sees it, to make the assignment from."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinReply(Struct, frozen=True):
    """The generation of a member; the leader also gets the other members."""

    error: ErrorCode = ErrorCode.NONE
    member_id: str = NO_MEMBER_ID
    generation_id: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str = NO_LEADER
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


class SyncReply(Struct, frozen=True):
    """A member's assignment, as the leader wrote it."""

    error: ErrorCode = ErrorCode.NONE
    assignment: bytes = b""
    protocol_type: str | None = None
    protocol_name: str | None = None


class HeartbeatReply(Struct, frozen=True):
    error: ErrorCode = ErrorCode.NONE


class LeftMember(Struct, frozen=True):
    member_id: str
    instance_id: str | None
    error: ErrorCode = ErrorCode.NONE


class LeaveReply(Struct, frozen=True):
    error: ErrorCode = ErrorCode.NONE
    members: tuple[LeftMember, ...] = ()


class DescribedMember(Struct, frozen=True):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class DescribeReply(Struct, frozen=True):
    """An unknown group is `Dead`; versions below 6 show that without the error."""

    group_id: str
    error: ErrorCode = ErrorCode.NONE
    state: str = ""
    protocol_type: str = ""
    protocol_name: str = ""
    members: tuple[DescribedMember, ...] = ()


class ListedGroup(Struct, frozen=True):
    group_id: str
    protocol_type: str
    state: str
    group_type: str


class ListReply(Struct, frozen=True):
    error: ErrorCode = ErrorCode.NONE
    groups: tuple[ListedGroup, ...] = ()


class DeleteGroupReply(Struct, frozen=True):
    group_id: str
    error: ErrorCode = ErrorCode.NONE


class PartitionOutcome(Struct, frozen=True):
    topic: str
    partition: int
    error: ErrorCode = ErrorCode.NONE


class CommitReply(Struct, frozen=True):
    """One outcome per offset, in the order of the request."""

    partitions: tuple[PartitionOutcome, ...]


class FetchedOffset(Struct, frozen=True):
    topic: str
    partition: int
    offset: int = NO_OFFSET
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""
    error: ErrorCode = ErrorCode.NONE


class FetchReply(Struct, frozen=True):
    group_id: str
    error: ErrorCode = ErrorCode.NONE
    offsets: tuple[FetchedOffset, ...] = ()
    unread: tuple[TopicPartition, ...] = ()
    """Where all were requested and there are very many: partitions left to be requested by name."""


class DeleteOffsetsReply(Struct, frozen=True):
    error: ErrorCode = ErrorCode.NONE
    partitions: tuple[PartitionOutcome, ...] = ()


class AssignmentReply(Struct, frozen=True):
    """The reply to a heartbeat of a consumer or share group: the member's epoch, and its assignment where that has
    changed or the heartbeat was full.
    """

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Partitions | None = None


class NamedPartitions(Struct, frozen=True):
    topic_id: bytes
    topic: str
    partitions: tuple[int, ...]


class DescribedConsumer(Struct, frozen=True):
    """A member of a group of the new protocol."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    epoch: int
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    expression: str
    assigned: tuple[NamedPartitions, ...]
    target: tuple[NamedPartitions, ...]
    is_classic: bool


class ConsumerDescribeReply(Struct, frozen=True):
    group_id: str
    error: ErrorCode = ErrorCode.NONE
    state: str = ""
    epoch: int = 0
    target_epoch: int = 0
    assignor: str = ""
    members: tuple[DescribedConsumer, ...] = ()


class DescribedShareMember(Struct, frozen=True):
    """A member of a share group."""

    member_id: str
    rack_id: str | None
    epoch: int
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    assigned: tuple[NamedPartitions, ...]


class ShareDescribeReply(Struct, frozen=True):
    group_id: str
    error: ErrorCode = ErrorCode.NONE
    state: str = ""
    epoch: int = 0
    target_epoch: int = 0
    assignor: str = ""
    members: tuple[DescribedShareMember, ...] = ()


class SharedTopicsReply(Struct, frozen=True):
    """The partitions for which a share group has a state, or had one before this request."""

    error: ErrorCode = ErrorCode.NONE
    topics: tuple[SharedTopic, ...] = ()


Reply: TypeAlias = (
    JoinReply
    | SyncReply
    | HeartbeatReply
    | LeaveReply
    | DescribeReply
    | ListReply
    | DeleteGroupReply
    | CommitReply
    | FetchReply
    | DeleteOffsetsReply
    | AssignmentReply
    | ConsumerDescribeReply
    | ShareDescribeReply
    | SharedTopicsReply
)


def refused(request: Request, error: ErrorCode) -> Reply:
    """The reply to a request that fails as a whole: a shell uses it for shards that are loading, lost or failed."""
    match request:
        case JoinGroup():
            return JoinReply(error, request.member_id)
        case SyncGroup():
            return SyncReply(error)
        case Heartbeat():
            return HeartbeatReply(error)
        case LeaveGroup():
            return LeaveReply(error)
        case ConsumerHeartbeat() | ShareHeartbeat():
            return AssignmentReply(error)
        case CommitOffsets() | CommitTransactionOffsets():
            return CommitReply(tuple(PartitionOutcome(one.topic, one.partition, error) for one in request.offsets))
        case FetchOffsets():
            return FetchReply(request.group_id, error)
        case _:
            return _refused_to_administrator(request, error)


def _refused_to_administrator(request: AdministratorRequest, error: ErrorCode) -> Reply:
    match request:
        case DescribeGroup():
            return DescribeReply(request.group_id, error)
        case DescribeConsumerGroup():
            return ConsumerDescribeReply(request.group_id, error)
        case ListGroups():
            return ListReply(error)
        case DeleteGroup():
            return DeleteGroupReply(request.group_id, error)
        case DeleteOffsets():
            return DeleteOffsetsReply(error)
        case DescribeShareGroup():
            return ShareDescribeReply(request.group_id, error)
        case ListSharedTopics() | ChangeSharedTopics():
            return SharedTopicsReply(error)
    assert_never(request)
