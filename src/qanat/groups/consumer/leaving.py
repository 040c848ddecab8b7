"""How members leave: by request, by session timeout, or because they do not revoke partitions in time.

A static member may leave temporarily: its partitions wait for it until its session ends.
"""

from __future__ import annotations

from msgspec.structs import replace

from qanat.groups.consumer import migration
from qanat.groups.consumer.group import GONE_FOR_A_WHILE, ConsumerGroup
from qanat.groups.consumer.removal import remove_member
from qanat.groups.consumer.requirements import named_refusal
from qanat.groups.consumer.subscriptions import refresh
from qanat.groups.decision_builder import DecisionBuilder
from qanat.groups.refusals import Refusal, other_kind, unknown_member
from qanat.groups.replies import AssignmentReply
from qanat.groups.requests import ConsumerHeartbeat
from qanat.groups.timers import Timer, TimerKind


def leave(builder: DecisionBuilder, request: ConsumerHeartbeat) -> AssignmentReply:
    group = builder.state.ledger.consumers.get(request.group_id)
    if group is None:
        return AssignmentReply(*other_kind("consumer", request.group_id))
    refusal: Refusal | None = None
    if request.instance_id is not None:
        refusal = named_refusal(group, request.member_id, request.instance_id)
    elif request.member_id not in group.members:
        refusal = unknown_member(group.group_id, request.member_id)
    if refusal is not None:
        return AssignmentReply(*refusal)
    if request.member_epoch == GONE_FOR_A_WHILE:
        current = group.current_of(request.member_id)
        builder.write(replace(current, epoch=GONE_FOR_A_WHILE, revoking=()))
        builder.state.timers.cancel(Timer(TimerKind.REVOCATION, group.group_id, request.member_id))
    else:
        remove_members(builder, group, [request.member_id])
    return AssignmentReply(member_id=request.member_id, member_epoch=request.member_epoch)


def remove_members(builder: DecisionBuilder, group: ConsumerGroup, member_ids: list[str]) -> None:
    """Remove members, with a new epoch; a group with only classic members left becomes a classic one."""
    if migration.may_become_classic(builder, group, without=member_ids):
        migration.become_classic(builder, group, without=member_ids)
        return
    for member_id in member_ids:
        remove_member(builder, group, member_id)
    refresh(builder, group, is_changed=True)


def on_timer(builder: DecisionBuilder, group: ConsumerGroup, member_id: str) -> None:
    """A timeout: of a session, of a revocation, or of a classic member's next request."""
    if member_id in group.members:
        remove_members(builder, group, [member_id])
