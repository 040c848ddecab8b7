"""The records of `__consumer_offsets`, as values: the ledger of groups consists of them.

A classic group's latest `GroupMetadataRecord` is its last completed generation;
a tombstone deletes a key. Groups of the new protocol and share groups have records of their
own (`consumer.records`, `share.records`). Their bytes are Kafka's own (`record_codec`).
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from qanat.groups.consumer.records import ConsumerRecord
from qanat.groups.share.records import ShareRecord
from qanat.model.ids import NO_LEADER_EPOCH, NO_TIMESTAMP

NO_GENERATION = -1


class MemberMetadata(Struct, frozen=True):
    """A member of a completed generation, with its subscription and assignment."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class GroupMetadataRecord(Struct, frozen=True):
    """A group between rebalances: empty where it has no members, stable otherwise."""

    group_id: str
    protocol_type: str
    generation_id: int
    protocol_name: str | None
    leader_id: str | None
    state_timestamp_ms: int = NO_TIMESTAMP
    members: tuple[MemberMetadata, ...] = ()


class GroupTombstone(Struct, frozen=True):
    """The group is deleted."""

    group_id: str


class OffsetCommitRecord(Struct, frozen=True):
    """A group's position in a partition."""

    group_id: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""
    commit_timestamp_ms: int = NO_TIMESTAMP
    expire_timestamp_ms: int = NO_TIMESTAMP
    """Set only by clients from before KIP-211, which chose the retention themselves."""


class OffsetTombstone(Struct, frozen=True):
    """The offset is deleted."""

    group_id: str
    topic: str
    partition: int


GroupRecord: TypeAlias = (
    GroupMetadataRecord | GroupTombstone | OffsetCommitRecord | OffsetTombstone | ConsumerRecord | ShareRecord
)
