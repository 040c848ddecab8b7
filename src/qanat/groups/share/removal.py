"""Tombstones of one member, or of a whole share group."""

from __future__ import annotations

from qanat.groups.decision_builder import DecisionBuilder
from qanat.groups.share import sessions
from qanat.groups.share.group import ShareGroup
from qanat.groups.share.records import ShareGroupTombstone, ShareRecordKind
from qanat.groups.share.subscriptions import refresh

_OF_A_MEMBER = (
    ShareRecordKind.CURRENT_ASSIGNMENT,
    ShareRecordKind.TARGET_ASSIGNMENT,
    ShareRecordKind.MEMBER,
)
"""In Kafka's order: a record goes before those that it depends on."""


def remove_member(builder: DecisionBuilder, group: ShareGroup, member_id: str) -> None:
    """A member leaves, or its session ended; its partitions go to the others with their next heartbeat."""
    for kind in _OF_A_MEMBER:
        builder.write(ShareGroupTombstone(group.group_id, kind, member_id))
    sessions.forget(builder, group, member_id)
    refresh(builder, group, is_changed=True)


def on_timer(builder: DecisionBuilder, group: ShareGroup, member_id: str) -> None:
    """A session has ended."""
    if member_id in group.members:
        remove_member(builder, group, member_id)


def remove_group(builder: DecisionBuilder, group: ShareGroup) -> None:
    """Remove an empty group with all its records."""
    assert not group.members, group
    for kind in (ShareRecordKind.TARGET_EPOCH, ShareRecordKind.TOPICS, ShareRecordKind.GROUP):
        builder.write(ShareGroupTombstone(group.group_id, kind))
    builder.state.seen_revisions.pop(group.group_id, None)
