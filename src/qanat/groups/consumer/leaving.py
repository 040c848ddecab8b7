"""How members go: they leave, fall silent, or do not let go of partitions in time.

A static member may leave for a while: its partitions wait for it until its session ends.
"""

from __future__ import annotations

from msgspec.structs import replace

from qanat.groups.consumer import migration
from qanat.groups.consumer.group import GONE_FOR_A_WHILE, ConsumerGroup
from qanat.groups.consumer.removal import take_out
from qanat.groups.consumer.requirements import Refusal, named_refusal, unknown_member
from qanat.groups.consumer.subscriptions import refresh
from qanat.groups.replies import ConsumerHeartbeatReply
from qanat.groups.requests import ConsumerHeartbeat
from qanat.groups.timers import Timer, TimerKind
from qanat.groups.turn import Turn
from qanat.model.error_codes import ErrorCode


def leave(turn: Turn, request: ConsumerHeartbeat) -> ConsumerHeartbeatReply:
    group = turn.state.ledger.consumers.get(request.group_id)
    if group is None:
        text = f"Group {request.group_id} is not a consumer group."
        return ConsumerHeartbeatReply(ErrorCode.GROUP_ID_NOT_FOUND, text)
    refusal: Refusal | None = None
    if request.instance_id is not None:
        refusal = named_refusal(group, request.member_id, request.instance_id)
    elif request.member_id not in group.members:
        refusal = unknown_member(group, request.member_id)
    if refusal is not None:
        return ConsumerHeartbeatReply(*refusal)
    if request.member_epoch == GONE_FOR_A_WHILE:
        current = group.current_of(request.member_id)
        turn.write(replace(current, epoch=GONE_FOR_A_WHILE, revoking=()))
        turn.state.timers.cancel(Timer(TimerKind.REVOCATION, group.group_id, request.member_id))
    else:
        remove(turn, group, [request.member_id])
    return ConsumerHeartbeatReply(member_id=request.member_id, member_epoch=request.member_epoch)


def remove(turn: Turn, group: ConsumerGroup, member_ids: list[str]) -> None:
    """Take members out, with a new epoch; a group that is left to classic members becomes theirs."""
    if migration.may_become_classic(turn, group, without=member_ids):
        migration.become_classic(turn, group, without=member_ids)
        return
    for member_id in member_ids:
        take_out(turn, group, member_id)
    refresh(turn, group, is_changed=True)


def on_timer(turn: Turn, group: ConsumerGroup, member_id: str) -> None:
    """Time is up: for a session, for letting go, or for a classic member's next word."""
    if member_id in group.members:
        remove(turn, group, [member_id])
