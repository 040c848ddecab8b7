"""A group of the new protocol, exactly as its records have it, and what follows from them.

Part of the ledger: it changes in `apply` only, and refuses nothing.
"""

from __future__ import annotations

from enum import StrEnum
from typing import assert_never

from qanat.groups.consumer.records import (
    ConsumerGroupRecord,
    ConsumerMemberRecord,
    ConsumerRecord,
    ConsumerTombstone,
    CurrentAssignmentRecord,
    ExpressionRecord,
    Partitions,
    RecordKind,
    TargetAssignmentRecord,
    TargetEpochRecord,
    TopicIdPartition,
)

GONE_FOR_A_WHILE = -2
"""The epoch of a static member that has left temporarily and keeps its place."""


class ConsumerGroupState(StrEnum):
    """Kafka's names, as ConsumerGroupDescribe and ListGroups show them."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ConsumerGroup:
    """See the module."""

    __slots__ = (
        "current",
        "epoch",
        "expressions",
        "group_id",
        "members",
        "owners",
        "static_members",
        "target_epoch",
        "targets",
        "topics_digest",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.topics_digest = 0
        self.target_epoch = 0
        self.members: dict[str, ConsumerMemberRecord] = {}
        self.targets: dict[str, Partitions] = {}
        self.current: dict[str, CurrentAssignmentRecord] = {}
        self.expressions: dict[str, ExpressionRecord] = {}
        self.static_members: dict[str, str] = {}
        """Member ids by instance id."""
        self.owners: dict[TopicIdPartition, str] = {}
        """The owner of each partition: it reads it, or has not yet confirmed its revocation."""

    def __repr__(self) -> str:
        return f"ConsumerGroup({self.group_id}, {self.state}, epoch {self.epoch}, {len(self.members)} members)"

    def as_values(self) -> tuple[object, ...]:
        """For comparison: two histories with the same result are equal."""
        numbers = (self.group_id, self.epoch, self.topics_digest, self.target_epoch)
        return (*numbers, self.members, self.targets, self.current, self.expressions, self.owners)

    def apply(self, record: ConsumerRecord) -> None:
        match record:
            case ConsumerGroupRecord():
                self.epoch, self.topics_digest = record.epoch, record.topics_digest
            case ConsumerMemberRecord():
                self._put_member(record)
            case TargetEpochRecord():
                self.target_epoch = record.epoch
            case TargetAssignmentRecord():
                self.targets[record.member_id] = record.partitions
            case CurrentAssignmentRecord():
                self._disown(record.member_id)
                self.current[record.member_id] = record
                for at in (*record.assigned, *record.revoking):
                    self.owners[at] = record.member_id
            case ExpressionRecord():
                self.expressions[record.expression] = record
            case ConsumerTombstone():
                self._take_back(record)
            case _:
                assert_never(record)

    def _put_member(self, record: ConsumerMemberRecord) -> None:
        self._forget_name(record.member_id)
        self.members[record.member_id] = record
        if record.instance_id is not None:
            self.static_members[record.instance_id] = record.member_id

    def _take_back(self, tombstone: ConsumerTombstone) -> None:
        match tombstone.kind:
            case RecordKind.MEMBER:
                self._forget_name(tombstone.name)
                self.members.pop(tombstone.name, None)
            case RecordKind.TARGET_EPOCH:
                self.target_epoch = 0
            case RecordKind.TARGET_ASSIGNMENT:
                self.targets.pop(tombstone.name, None)
            case RecordKind.CURRENT_ASSIGNMENT:
                self._disown(tombstone.name)
                self.current.pop(tombstone.name, None)
            case RecordKind.EXPRESSION:
                self.expressions.pop(tombstone.name, None)
            case RecordKind.GROUP | RecordKind.TOPICS:
                pass

    def _forget_name(self, member_id: str) -> None:
        present = self.members.get(member_id)
        if present and present.instance_id and self.static_members.get(present.instance_id) == member_id:
            del self.static_members[present.instance_id]

    def _disown(self, member_id: str) -> None:
        """Compaction may keep the record of a new owner and drop the old owner's revocation: the later counts."""
        present = self.current.get(member_id)
        for at in (*present.assigned, *present.revoking) if present else ():
            if self.owners.get(at) == member_id:
                del self.owners[at]

    # Queries

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        is_settled = all(self.current_of(member_id).is_settled_in(self.target_epoch) for member_id in self.members)
        return ConsumerGroupState.STABLE if is_settled else ConsumerGroupState.RECONCILING

    def current_of(self, member_id: str) -> CurrentAssignmentRecord:
        """A member's current assignment; one without a record is at the beginning."""
        return self.current.get(member_id) or CurrentAssignmentRecord(self.group_id, member_id)

    def target_of(self, member_id: str) -> Partitions:
        return self.targets.get(member_id, ())

    def topics_of(self, member: ConsumerMemberRecord) -> tuple[str, ...]:
        """The topics of a member: those it names, and those that match its expression."""
        resolved = self.expressions.get(member.expression) if member.expression else None
        return member.topics if resolved is None else (*member.topics, *resolved.topics)

    def subscribed_topics(self) -> dict[str, None]:
        """The topics of all members, each once."""
        return {topic: None for member in self.members.values() for topic in self.topics_of(member)}

    def is_subscribed(self, topic: str) -> bool:
        return any(topic in self.topics_of(member) for member in self.members.values())

    @property
    def classic_members(self) -> list[ConsumerMemberRecord]:
        return [member for member in self.members.values() if member.is_classic]

    def waits_for_others(self, member_id: str) -> bool:
        """Whether a partition of the member's target still has another owner."""
        current = self.current_of(member_id)
        return any(at in self.owners and at not in current.assigned for at in self.target_of(member_id))
