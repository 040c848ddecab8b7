"""Taking back what is written: about one member, or about a whole share group."""

from __future__ import annotations

from qanat.groups.share import sessions
from qanat.groups.share.group import ShareGroup
from qanat.groups.share.records import ShareGroupTombstone, ShareRecordKind
from qanat.groups.share.subscriptions import refresh
from qanat.groups.turn import Turn

_OF_A_MEMBER = (
    ShareRecordKind.CURRENT_ASSIGNMENT,
    ShareRecordKind.TARGET_ASSIGNMENT,
    ShareRecordKind.MEMBER,
)
"""In Kafka's order: what depends on something goes before it."""


def remove(turn: Turn, group: ShareGroup, member_id: str) -> None:
    """A member leaves, or was silent for too long; what it worked on is the others' with their next heartbeat."""
    for kind in _OF_A_MEMBER:
        turn.write(ShareGroupTombstone(group.group_id, kind, member_id))
    sessions.forget(turn, group, member_id)
    refresh(turn, group, is_changed=True)


def on_timer(turn: Turn, group: ShareGroup, member_id: str) -> None:
    """A session is over."""
    if member_id in group.members:
        remove(turn, group, member_id)


def bury(turn: Turn, group: ShareGroup) -> None:
    """Forget an empty group with everything that is written about it."""
    assert not group.members, group
    for kind in (ShareRecordKind.TARGET_EPOCH, ShareRecordKind.TOPICS, ShareRecordKind.GROUP):
        turn.write(ShareGroupTombstone(group.group_id, kind))
    turn.state.seen_revisions.pop(group.group_id, None)
