"""Taking back what is written: about one member, or about a whole group."""

from __future__ import annotations

from qanat.groups.consumer import sessions
from qanat.groups.consumer.group import ConsumerGroup
from qanat.groups.consumer.records import ConsumerTombstone, RecordKind
from qanat.groups.turn import Turn

_OF_A_MEMBER = (RecordKind.CURRENT_ASSIGNMENT, RecordKind.TARGET_ASSIGNMENT, RecordKind.MEMBER)
"""In Kafka's order: what depends on something goes before it."""


def take_out(turn: Turn, group: ConsumerGroup, member_id: str) -> None:
    """Forget one member; its partitions are free."""
    for kind in _OF_A_MEMBER:
        turn.write(ConsumerTombstone(group.group_id, kind, member_id))
    sessions.forget(turn, group, member_id)


def bury(turn: Turn, group: ConsumerGroup) -> None:
    """Forget a group with everything that is written about it, its offsets excepted."""
    group_id, member_ids = group.group_id, list(group.members)
    for kind in _OF_A_MEMBER:
        for member_id in member_ids:
            turn.write(ConsumerTombstone(group_id, kind, member_id))
    for expression in list(group.expressions):
        turn.write(ConsumerTombstone(group_id, RecordKind.EXPRESSION, expression))
    for kind in (RecordKind.TARGET_EPOCH, RecordKind.GROUP):
        turn.write(ConsumerTombstone(group_id, kind))
    for member_id in member_ids:
        sessions.forget(turn, group, member_id)
    turn.state.seen_revisions.pop(group_id, None)
