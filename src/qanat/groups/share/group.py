"""A share group, exactly as its records have it, and what follows from them.

Part of the ledger: it changes in `apply` only, and refuses nothing.
"""

from __future__ import annotations

from enum import StrEnum
from typing import assert_never

from qanat.groups.consumer.records import Partitions
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


class ShareGroupState(StrEnum):
    """Kafka's names, as ShareGroupDescribe and ListGroups show them."""

    EMPTY = "Empty"
    STABLE = "Stable"


class ShareGroup:
    """See the module."""

    __slots__ = ("current", "epoch", "group_id", "members", "target_epoch", "targets", "topics", "topics_digest")

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.topics_digest = 0
        self.target_epoch = 0
        self.members: dict[str, ShareMemberRecord] = {}
        self.targets: dict[str, Partitions] = {}
        self.current: dict[str, ShareCurrentRecord] = {}
        self.topics: dict[bytes, SharedTopic] = {}
        """By id: the partitions for which the group has a state, whether a member reads them now or not."""

    def __repr__(self) -> str:
        return f"ShareGroup({self.group_id}, {self.state}, epoch {self.epoch}, {len(self.members)} members)"

    def as_values(self) -> tuple[object, ...]:
        """For comparison: two histories with the same result are equal."""
        numbers = (self.group_id, self.epoch, self.topics_digest, self.target_epoch)
        return (*numbers, self.members, self.targets, self.current, self.topics)

    def apply(self, record: ShareRecord) -> None:
        match record:
            case ShareGroupRecord():
                self.epoch, self.topics_digest = record.epoch, record.topics_digest
            case ShareMemberRecord():
                self.members[record.member_id] = record
            case ShareTargetEpochRecord():
                self.target_epoch = record.epoch
            case ShareTargetRecord():
                self.targets[record.member_id] = record.partitions
            case ShareCurrentRecord():
                self.current[record.member_id] = record
            case ShareTopicsRecord():
                self.topics = {one.topic_id: one for one in record.topics}
            case ShareGroupTombstone():
                self._take_back(record)
            case _:
                assert_never(record)

    def _take_back(self, tombstone: ShareGroupTombstone) -> None:
        match tombstone.kind:
            case ShareRecordKind.MEMBER:
                self.members.pop(tombstone.member_id, None)
            case ShareRecordKind.TARGET_EPOCH:
                self.target_epoch = 0
            case ShareRecordKind.TARGET_ASSIGNMENT:
                self.targets.pop(tombstone.member_id, None)
            case ShareRecordKind.CURRENT_ASSIGNMENT:
                self.current.pop(tombstone.member_id, None)
            case ShareRecordKind.TOPICS:
                self.topics = {}
            case ShareRecordKind.GROUP:
                pass

    # Queries

    @property
    def state(self) -> ShareGroupState:
        """Members never wait for each other: a group with members is stable."""
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    def current_of(self, member_id: str) -> ShareCurrentRecord:
        """A member's latest assignment; one without a record is at the beginning."""
        return self.current.get(member_id) or ShareCurrentRecord(self.group_id, member_id)

    def subscribed_topics(self) -> dict[str, None]:
        """The topics of all members, each once."""
        return {topic: None for member in self.members.values() for topic in member.topics}
