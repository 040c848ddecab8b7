"""ConsumerGroupHeartbeat, versions 0 and 1: a member joins, says what is new, leaves; it learns what to read.

- 0     the coordinator draws a new member's id
- 1     subscriptions by expression; members bring their ids (KIP-1082)

Differs from Kafka: an expression's topics are found at once, and not some heartbeats later. A member that was fenced
may join again at once, and need not wait until its old session ends.
"""

from __future__ import annotations

from msgspec.structs import replace

from qanat.groups.consumer import leaving, migration, sessions
from qanat.groups.consumer.group import GONE_FOR_A_WHILE, ConsumerGroup
from qanat.groups.consumer.reconciliation import next_step
from qanat.groups.consumer.records import (
    ConsumerMemberRecord,
    CurrentAssignmentRecord,
    Partitions,
    TargetAssignmentRecord,
)
from qanat.groups.consumer.removal import take_out
from qanat.groups.consumer.requirements import (
    JOINING,
    LEAVING,
    Refusal,
    epoch_refusal,
    malformed,
    named_refusal,
    unknown_member,
    unreleased,
)
from qanat.groups.consumer.subscriptions import refresh
from qanat.groups.consumer.target import assign
from qanat.groups.replies import ConsumerHeartbeatReply
from qanat.groups.requests import ConsumerHeartbeat, Sight
from qanat.groups.turn import Turn
from qanat.model.error_codes import ErrorCode


def heartbeat(turn: Turn, request: ConsumerHeartbeat) -> ConsumerHeartbeatReply:
    refusal = malformed(request, turn.state.assignors)
    if refusal is not None:
        return ConsumerHeartbeatReply(*refusal)
    if request.member_epoch in (LEAVING, GONE_FOR_A_WHILE):
        return leaving.leave(turn, request)
    group = _group(turn, request)
    if isinstance(group, Refusal):
        return ConsumerHeartbeatReply(*group)
    member_id = request.member_id or request.unique
    member = _member(turn, group, request, member_id)
    if isinstance(member, Refusal):
        return ConsumerHeartbeatReply(*member)
    return _follow(turn, group, member, request)


def _group(turn: Turn, request: ConsumerHeartbeat) -> ConsumerGroup | Refusal:
    """The group, if it is one of ours or may become one; a first member founds it."""
    group = turn.state.ledger.consumers.get(request.group_id)
    if group is None and request.member_epoch != JOINING:
        return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} is not a consumer group.")
    if group is None:
        refusal = migration.upgrade_refusal(turn, request.group_id, request.member_id)
        return refusal or migration.become_ours(turn, request.group_id)
    size_max = turn.state.settings.group_consumer_max_size
    is_in = request.member_id in group.members or request.instance_id in group.static_members
    if len(group.members) >= size_max and not is_in:
        text = f"The consumer group has reached its maximum capacity of {size_max} members."
        return Refusal(ErrorCode.GROUP_MAX_SIZE_REACHED, text)
    return group


def _member(
    turn: Turn, group: ConsumerGroup, request: ConsumerHeartbeat, member_id: str
) -> ConsumerMemberRecord | Refusal:
    """The member as it was before this heartbeat; a new one has nothing yet."""
    is_joining = request.member_epoch == JOINING
    instance_id = request.instance_id
    if instance_id is not None and is_joining:
        present = group.members.get(group.static_members.get(instance_id, ""))
        is_back = present is not None and group.current_of(present.member_id).epoch == GONE_FOR_A_WHILE
        if present is not None and (is_back or present.member_id != member_id):
            return unreleased(group, present, member_id) or replace_member(turn, group, present, member_id)
    elif instance_id is not None:
        refusal = named_refusal(group, member_id, instance_id)
        if refusal is not None:
            return refusal
    member = group.members.get(member_id)
    if member is None:
        if not is_joining:
            return unknown_member(group, member_id)
        member = ConsumerMemberRecord(group.group_id, member_id)
    return epoch_refusal(group.current_of(member_id), request.member_epoch, request.owned) or member


def replace_member(
    turn: Turn, group: ConsumerGroup, present: ConsumerMemberRecord, member_id: str
) -> ConsumerMemberRecord:
    """A static member's place, with all that belongs to it, goes to its successor under a new id."""
    target, current = group.target_of(present.member_id), group.current_of(present.member_id)
    take_out(turn, group, present.member_id)
    successor = replace(present, member_id=member_id)
    turn.write(successor)
    turn.write(TargetAssignmentRecord(group.group_id, member_id, target))
    turn.write(replace(current, member_id=member_id, epoch=0, previous_epoch=0))
    return successor


def _follow(
    turn: Turn, group: ConsumerGroup, before: ConsumerMemberRecord, request: ConsumerHeartbeat
) -> ConsumerHeartbeatReply:
    """Take in what is new, and take the member one step further."""
    member = _updated(before, request)
    if request.sight is not None:
        _note_sight(turn, group, member.member_id, request.sight)
    known = group.current_of(member.member_id)
    is_new = subscribe(turn, group, before, member)
    refresh(turn, group, is_changed=is_new)
    assign(turn, group)
    # A join may be a late copy of one that was answered long ago: it does not say that the member has let go.
    is_late = request.member_epoch == JOINING and known.epoch > JOINING
    current = reconcile(turn, group, member, None if is_late else request.owned)
    sessions.renew_session(turn, group, member)
    return ConsumerHeartbeatReply(
        member_id=member.member_id,
        member_epoch=current.epoch,
        heartbeat_interval_ms=turn.own_settings(group.group_id).consumer_heartbeat_interval_ms,
        assignment=current.assigned if request.is_full or current.assigned != known.assigned else None,
    )


def _note_sight(turn: Turn, group: ConsumerGroup, member_id: str, sight: Sight) -> None:
    """What a member may see is not written down; where it is new, expressions are looked at again."""
    state, key = turn.state, (group.group_id, member_id)
    state.is_authorized = True
    if state.sights.get(key) != sight:
        state.sights[key] = sight
        state.seen_revisions.pop(group.group_id, None)


def _updated(member: ConsumerMemberRecord, request: ConsumerHeartbeat) -> ConsumerMemberRecord:
    """What a heartbeat does not mention stays as it is. Who sends one speaks the new protocol."""
    return ConsumerMemberRecord(
        member.group_id,
        member.member_id,
        member.instance_id if request.instance_id is None else request.instance_id,
        member.rack_id if request.rack_id is None else request.rack_id,
        request.client_id,
        request.client_host,
        member.topics if request.topics is None else tuple(dict.fromkeys(request.topics)),
        member.expression if request.expression is None else request.expression,
        member.rebalance_timeout_ms if request.rebalance_timeout_ms < 0 else request.rebalance_timeout_ms,
        member.assignor if request.assignor is None else request.assignor,
    )


def subscribe(turn: Turn, group: ConsumerGroup, before: ConsumerMemberRecord, member: ConsumerMemberRecord) -> bool:
    """Write the member down if it is not as it was; whether that changes what the group reads."""
    is_there = member.member_id in group.members
    if not is_there or member != before:
        turn.write(member)
    return not is_there or _reads(member) != _reads(before)


def _reads(member: ConsumerMemberRecord) -> tuple[list[str], str]:
    return sorted(member.topics), member.expression


def reconcile(
    turn: Turn, group: ConsumerGroup, member: ConsumerMemberRecord, owned: Partitions | None
) -> CurrentAssignmentRecord:
    """One step towards the target; written down if it leads somewhere."""
    before = group.current_of(member.member_id)
    target = group.target_of(member.member_id)
    current = next_step(before, group.target_epoch, target, owned, group.owners)
    if current != before or member.member_id not in group.current:
        turn.write(current)
        sessions.watch_revocation(turn, group, member, current)
    return current
