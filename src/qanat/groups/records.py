"""What the ledger of groups consists of: the records of `__consumer_offsets`, as values.

A group's latest `GroupMetadataRecord` is its last completed generation; a
tombstone takes a key back. Their bytes are Kafka's own (`record_codec`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from qanat.model.ids import NO_LEADER_EPOCH, NO_TIMESTAMP

NO_GENERATION = -1


@dataclass(frozen=True, slots=True)
class MemberMetadata:
    """A member of a completed generation, with what it asked for and what it was given."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupMetadataRecord:
    """A group between rebalances: empty where it has no members, stable otherwise."""

    group_id: str
    protocol_type: str
    generation_id: int
    protocol_name: str | None
    leader_id: str | None
    state_timestamp_ms: int = NO_TIMESTAMP
    members: tuple[MemberMetadata, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupTombstone:
    """The group is gone."""

    group_id: str


@dataclass(frozen=True, slots=True)
class OffsetCommitRecord:
    """How far a group has read a partition."""

    group_id: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""
    commit_timestamp_ms: int = NO_TIMESTAMP
    expire_timestamp_ms: int = NO_TIMESTAMP
    """Set only by clients of before KIP-211, which chose the retention themselves."""


@dataclass(frozen=True, slots=True)
class OffsetTombstone:
    """The offset is gone."""

    group_id: str
    topic: str
    partition: int


GroupRecord: TypeAlias = GroupMetadataRecord | GroupTombstone | OffsetCommitRecord | OffsetTombstone
