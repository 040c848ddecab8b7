"""What a coordinator answers, and `refused`: any request's answer when it cannot be served at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, assert_never

from qanat.groups.records import NO_GENERATION
from qanat.groups.requests import (
    NO_MEMBER_ID,
    CommitOffsets,
    CommitTransactionOffsets,
    DeleteGroup,
    DeleteOffsets,
    DescribeGroup,
    FetchOffsets,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    Request,
    SyncGroup,
)
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import NO_LEADER_EPOCH, NO_OFFSET

NO_LEADER = ""
DEAD = "Dead"


@dataclass(frozen=True, slots=True)
class JoinedMember:
    """A member as the leader sees it, to make the assignment from."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinReply:
    """The generation that a member is in; the leader also learns who else is."""

    error: ErrorCode = ErrorCode.NONE
    member_id: str = NO_MEMBER_ID
    generation_id: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str = NO_LEADER
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


@dataclass(frozen=True, slots=True)
class SyncReply:
    """A member's assignment, as the leader wrote it."""

    error: ErrorCode = ErrorCode.NONE
    assignment: bytes = b""
    protocol_type: str | None = None
    protocol_name: str | None = None


@dataclass(frozen=True, slots=True)
class HeartbeatReply:
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class LeftMember:
    member_id: str
    instance_id: str | None
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class LeaveReply:
    error: ErrorCode = ErrorCode.NONE
    members: tuple[LeftMember, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribedMember:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class DescribeReply:
    """An unknown group is `Dead`; versions below 6 show that without the error."""

    group_id: str
    error: ErrorCode = ErrorCode.NONE
    state: str = ""
    protocol_type: str = ""
    protocol_name: str = ""
    members: tuple[DescribedMember, ...] = ()


@dataclass(frozen=True, slots=True)
class ListedGroup:
    group_id: str
    protocol_type: str
    state: str
    group_type: str


@dataclass(frozen=True, slots=True)
class ListReply:
    error: ErrorCode = ErrorCode.NONE
    groups: tuple[ListedGroup, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteGroupReply:
    group_id: str
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class PartitionOutcome:
    topic: str
    partition: int
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class CommitReply:
    """One outcome per offset, in the order of the request."""

    partitions: tuple[PartitionOutcome, ...]


@dataclass(frozen=True, slots=True)
class FetchedOffset:
    topic: str
    partition: int
    offset: int = NO_OFFSET
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""
    error: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class FetchReply:
    group_id: str
    error: ErrorCode = ErrorCode.NONE
    offsets: tuple[FetchedOffset, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteOffsetsReply:
    error: ErrorCode = ErrorCode.NONE
    partitions: tuple[PartitionOutcome, ...] = ()


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
)


def refused(request: Request, error: ErrorCode) -> Reply:
    """The answer to a request that fails as a whole: a shell uses it for shards that are loading, lost or failed."""
    match request:
        case JoinGroup():
            return JoinReply(error, request.member_id)
        case SyncGroup():
            return SyncReply(error)
        case Heartbeat():
            return HeartbeatReply(error)
        case LeaveGroup():
            return LeaveReply(error)
        case DescribeGroup():
            return DescribeReply(request.group_id, error)
        case ListGroups():
            return ListReply(error)
        case DeleteGroup():
            return DeleteGroupReply(request.group_id, error)
        case CommitOffsets() | CommitTransactionOffsets():
            return CommitReply(tuple(PartitionOutcome(one.topic, one.partition, error) for one in request.offsets))
        case FetchOffsets():
            return FetchReply(request.group_id, error)
        case DeleteOffsets():
            return DeleteOffsetsReply(error)
    assert_never(request)
