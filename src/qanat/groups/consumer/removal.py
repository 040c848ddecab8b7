"""Tombstones of one member, or of a whole group."""

from __future__ import annotations

from qanat.groups.consumer import sessions
from qanat.groups.consumer.group import ConsumerGroup
from qanat.groups.consumer.records import ConsumerTombstone, RecordKind
from qanat.groups.decision_builder import DecisionBuilder

_OF_A_MEMBER = (RecordKind.CURRENT_ASSIGNMENT, RecordKind.TARGET_ASSIGNMENT, RecordKind.MEMBER)
"""In Kafka's order: a record goes before those that it depends on."""


def remove_member(builder: DecisionBuilder, group: ConsumerGroup, member_id: str) -> None:
    """Remove one member; its partitions are free."""
    for kind in _OF_A_MEMBER:
        builder.write(ConsumerTombstone(group.group_id, kind, member_id))
    sessions.forget(builder, group, member_id)


def remove_group(builder: DecisionBuilder, group: ConsumerGroup) -> None:
    """Remove a group with all its records, except its offsets."""
    group_id, member_ids = group.group_id, list(group.members)
    for kind in _OF_A_MEMBER:
        for member_id in member_ids:
            builder.write(ConsumerTombstone(group_id, kind, member_id))
    for expression in list(group.expressions):
        builder.write(ConsumerTombstone(group_id, RecordKind.EXPRESSION, expression))
    for kind in (RecordKind.TARGET_EPOCH, RecordKind.GROUP):
        builder.write(ConsumerTombstone(group_id, kind))
    for member_id in member_ids:
        sessions.forget(builder, group, member_id)
    builder.state.seen_revisions.pop(group_id, None)
