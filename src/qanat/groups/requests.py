"""Requests to a coordinator, independent of the wire.

Handlers translate wire messages into these, version differences included:
where a rule depends on what the client's version understands, a flag of the value says
so, so that no version number gets in here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct

from qanat.groups.consumer.records import Partitions
from qanat.groups.records import NO_GENERATION
from qanat.groups.share.records import SharedTopic
from qanat.model.ids import NO_LEADER_EPOCH, NO_TIMESTAMP, TopicPartition

NO_MEMBER_ID = ""

TopicVisibility: TypeAlias = Callable[[str], bool]
"""Whether a client may see a topic; those of members with the same rights are equal."""


class Protocol(Struct, frozen=True):
    """An assignment strategy that a member supports, with its subscription as opaque bytes."""

    name: str
    metadata: bytes


class JoinGroup(Struct, frozen=True):
    """A member joins the next generation."""

    group_id: str
    member_id: str
    protocol_type: str
    protocols: tuple[Protocol, ...]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    """Not above 0: the session timeout serves for both (version 0)."""
    unique: str
    """The random part of a member id, should one be needed; supplied by the shell."""
    client_id: str = ""
    client_host: str = ""
    instance_id: str | None = None
    needs_member_id: bool = True
    """Version 4 and up: a new member first gets its id (KIP-394)."""
    may_skip_assignment: bool = True
    """Version 9 and up: a returning static leader can be told not to assign (KIP-814)."""


class SyncGroup(Struct, frozen=True):
    """A member requests its assignment; the leader brings those of all members."""

    group_id: str
    member_id: str
    generation_id: int
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()


class Heartbeat(Struct, frozen=True):
    """A member is alive and learns whether a rebalance is under way."""

    group_id: str
    member_id: str
    generation_id: int
    instance_id: str | None = None


class LeavingMember(Struct, frozen=True):
    """By member id, or by instance id alone where an administrator removes a static member."""

    member_id: str
    instance_id: str | None = None
    reason: str | None = None


class LeaveGroup(Struct, frozen=True):
    """Members that leave without waiting for their session to time out."""

    group_id: str
    members: tuple[LeavingMember, ...]


class DescribeGroup(Struct, frozen=True):
    """One group in detail; handlers batch."""

    group_id: str


class ListGroups(Struct, frozen=True):
    """Every group of the shard; empty filters match everything, case does not matter."""

    states: tuple[str, ...] = ()
    types: tuple[str, ...] = ()


class DeleteGroup(Struct, frozen=True):
    """Delete an empty group with its offsets; handlers batch."""

    group_id: str


class OffsetToCommit(Struct, frozen=True):
    """One partition's new position."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str | None = ""


class CommitOffsets(Struct, frozen=True):
    """Positions to store: from a member of the generation, or from outside the group (generation -1)."""

    group_id: str
    offsets: tuple[OffsetToCommit, ...]
    member_id: str = NO_MEMBER_ID
    generation_id: int = NO_GENERATION
    instance_id: str | None = None
    retention_ms: int = NO_TIMESTAMP
    """Versions 2 to 4: how long to keep these offsets; -1 for the broker's rule."""
    knows_group_id_not_found: bool = True
    """Version 9 and up."""
    knows_member_epochs: bool = True
    """Version 9 and up: members of the new protocol may send their epoch."""


class CommitTransactionOffsets(Struct, frozen=True):
    """Positions that count once the producer's transaction commits (KIP-98, KIP-447)."""

    group_id: str
    producer_id: int
    producer_epoch: int
    offsets: tuple[OffsetToCommit, ...]
    member_id: str = NO_MEMBER_ID
    generation_id: int = NO_GENERATION
    instance_id: str | None = None


class FetchOffsets(Struct, frozen=True):
    """A group's positions; `None` requests every partition it has."""

    group_id: str
    partitions: tuple[TopicPartition, ...] | None = None
    require_stable: bool = False
    """Refuse partitions whose position depends on an open transaction (KIP-447)."""
    member_id: str | None = None
    """Version 9 and up: the requesting member, in a group of the new protocol."""
    member_epoch: int = -1


class DeleteOffsets(Struct, frozen=True):
    """Delete positions in topics that the group no longer reads."""

    group_id: str
    partitions: tuple[TopicPartition, ...]


class ConsumerHeartbeat(Struct, frozen=True):
    """A member of the new protocol joins (epoch 0), is alive, or leaves (-1 for good, -2 temporarily); KIP-848.

    None stands for what has not changed since the member last sent it.
    """

    group_id: str
    member_id: str
    member_epoch: int
    unique: str
    """A member id, should one be needed; supplied by the shell."""
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topics: tuple[str, ...] | None = None
    expression: str | None = None
    assignor: str | None = None
    owned: Partitions | None = None
    client_id: str = ""
    client_host: str = ""
    brings_its_id: bool = True
    """Version 1 and up: a member draws its id itself (KIP-1082)."""
    visibility: TopicVisibility | None = None
    """The topics that the member may see; None for all."""

    @property
    def is_full(self) -> bool:
        """Whether the member sends everything, so that the reply should be complete."""
        says_topics = self.topics is not None or self.expression is not None
        return self.member_epoch == 0 or (self.rebalance_timeout_ms >= 0 and says_topics and self.owned is not None)


class DescribeConsumerGroup(Struct, frozen=True):
    """One group of the new protocol in detail; handlers batch."""

    group_id: str


class ShareHeartbeat(Struct, frozen=True):
    """A member of a share group joins (epoch 0), is alive, or leaves (-1); KIP-932.

    None stands for what has not changed since the member last sent it.
    """

    group_id: str
    member_id: str
    member_epoch: int
    rack_id: str | None = None
    topics: tuple[str, ...] | None = None
    client_id: str = ""
    client_host: str = ""


class DescribeShareGroup(Struct, frozen=True):
    """One share group in detail; handlers batch."""

    group_id: str


class ListSharedTopics(Struct, frozen=True):
    """The partitions for which a share group has a state."""

    group_id: str
    must_be_empty: bool = False
    """Refuse where the group has members, which the following change would disturb."""
    may_be_new: bool = False
    """A group that does not exist counts as an empty one, unless its name belongs to a group of another kind."""


class ChangeSharedTopics(Struct, frozen=True):
    """Have a state for more partitions, or for fewer; the shell makes and deletes the state itself.

    The first partitions create a group that does not exist.
    """

    group_id: str
    added: tuple[SharedTopic, ...] = ()
    removed: tuple[bytes, ...] = ()


AdministratorRequest: TypeAlias = (
    DescribeGroup
    | DescribeConsumerGroup
    | DescribeShareGroup
    | ListGroups
    | DeleteGroup
    | DeleteOffsets
    | ListSharedTopics
    | ChangeSharedTopics
)
"""Requests about groups from outside."""

Request: TypeAlias = (
    JoinGroup
    | SyncGroup
    | Heartbeat
    | LeaveGroup
    | CommitOffsets
    | CommitTransactionOffsets
    | FetchOffsets
    | ConsumerHeartbeat
    | ShareHeartbeat
    | AdministratorRequest
)
