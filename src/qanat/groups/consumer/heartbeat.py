"""ConsumerGroupHeartbeat, versions 0 and 1: a member joins, reports changes, leaves; it learns its assignment.

- 0     the coordinator draws a new member's id
- 1     subscriptions by expression; members bring their ids (KIP-1082)

Differs from Kafka: an expression's topics are found at once, and not some heartbeats later. A fenced member
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
from qanat.groups.consumer.removal import remove_member
from qanat.groups.consumer.requirements import epoch_refusal, malformed, named_refusal, unreleased
from qanat.groups.consumer.subscriptions import refresh
from qanat.groups.consumer.target import assign
from qanat.groups.decision_builder import DecisionBuilder
from qanat.groups.refusals import JOINING, LEAVING, Refusal, full, other_kind, unknown_member
from qanat.groups.replies import AssignmentReply
from qanat.groups.requests import ConsumerHeartbeat, TopicVisibility


def heartbeat(builder: DecisionBuilder, request: ConsumerHeartbeat) -> AssignmentReply:
    refusal = malformed(request, builder.state.assignors)
    if refusal is not None:
        return AssignmentReply(*refusal)
    if request.member_epoch in (LEAVING, GONE_FOR_A_WHILE):
        return leaving.leave(builder, request)
    group = _group(builder, request)
    if isinstance(group, Refusal):
        return AssignmentReply(*group)
    member_id = request.member_id or request.unique
    member = _member(builder, group, request, member_id)
    if isinstance(member, Refusal):
        return AssignmentReply(*member)
    return _follow(builder, group, member, request)


def _group(builder: DecisionBuilder, request: ConsumerHeartbeat) -> ConsumerGroup | Refusal:
    """The group, if it is of this kind or may become so; a first member creates it."""
    group = builder.state.ledger.consumers.get(request.group_id)
    if group is None and request.member_epoch != JOINING:
        return other_kind("consumer", request.group_id)
    if group is None:
        refusal = migration.upgrade_refusal(builder, request.group_id, request.member_id)
        return refusal or migration.become_ours(builder, request.group_id)
    size_max = builder.state.settings.group_consumer_max_size
    is_in = request.member_id in group.members or request.instance_id in group.static_members
    if len(group.members) >= size_max and not is_in:
        return full("consumer", size_max)
    return group


def _member(
    builder: DecisionBuilder, group: ConsumerGroup, request: ConsumerHeartbeat, member_id: str
) -> ConsumerMemberRecord | Refusal:
    """The member as it was before this heartbeat; a new one has nothing yet."""
    is_joining = request.member_epoch == JOINING
    instance_id = request.instance_id
    if instance_id is not None and is_joining:
        present = group.members.get(group.static_members.get(instance_id, ""))
        is_back = present is not None and group.current_of(present.member_id).epoch == GONE_FOR_A_WHILE
        if present is not None and (is_back or present.member_id != member_id):
            return unreleased(group, present, member_id) or replace_member(builder, group, present, member_id)
    elif instance_id is not None:
        refusal = named_refusal(group, member_id, instance_id)
        if refusal is not None:
            return refusal
    member = group.members.get(member_id)
    if member is None:
        if not is_joining:
            return unknown_member(group.group_id, member_id)
        member = ConsumerMemberRecord(group.group_id, member_id)
    return epoch_refusal(group.current_of(member_id), request.member_epoch, request.owned) or member


def replace_member(
    builder: DecisionBuilder, group: ConsumerGroup, present: ConsumerMemberRecord, member_id: str
) -> ConsumerMemberRecord:
    """A static member's place, with all its state, goes to its successor under a new id."""
    target, current = group.target_of(present.member_id), group.current_of(present.member_id)
    remove_member(builder, group, present.member_id)
    successor = replace(present, member_id=member_id)
    builder.write(successor)
    builder.write(TargetAssignmentRecord(group.group_id, member_id, target))
    builder.write(replace(current, member_id=member_id, epoch=0, previous_epoch=0))
    return successor


def _follow(
    builder: DecisionBuilder, group: ConsumerGroup, before: ConsumerMemberRecord, request: ConsumerHeartbeat
) -> AssignmentReply:
    """Apply the changes, and take the member one step further."""
    member = _updated(before, request)
    if request.visibility is not None:
        _note_visibility(builder, group, member.member_id, request.visibility)
    known = group.current_of(member.member_id)
    is_new = subscribe(builder, group, before, member)
    refresh(builder, group, is_changed=is_new)
    assign(builder, group)
    # A join may be a late copy of one that was answered long ago: it does not mean that the member has revoked.
    is_late = request.member_epoch == JOINING and known.epoch > JOINING
    current = reconcile(builder, group, member, None if is_late else request.owned)
    sessions.renew_session(builder, group, member)
    return AssignmentReply(
        member_id=member.member_id,
        member_epoch=current.epoch,
        heartbeat_interval_ms=builder.group_overrides(group.group_id).consumer_heartbeat_interval_ms,
        assignment=current.assigned if request.is_full or current.assigned != known.assigned else None,
    )


def _note_visibility(
    builder: DecisionBuilder, group: ConsumerGroup, member_id: str, visibility: TopicVisibility
) -> None:
    """What a member may see is not written down; where it is new, expressions are resolved again."""
    state, key = builder.state, (group.group_id, member_id)
    state.is_authorized = True
    if state.visibilities.get(key) != visibility:
        state.visibilities[key] = visibility
        state.seen_revisions.pop(group.group_id, None)


def _updated(member: ConsumerMemberRecord, request: ConsumerHeartbeat) -> ConsumerMemberRecord:
    """Fields that a heartbeat leaves out stay as they are. A sender of one uses the new protocol."""
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


def subscribe(
    builder: DecisionBuilder, group: ConsumerGroup, before: ConsumerMemberRecord, member: ConsumerMemberRecord
) -> bool:
    """Write the member if it has changed, or is new; returns whether that changes what the group reads."""
    is_there = member.member_id in group.members
    if member != before:
        builder.write(member)
    return not is_there or _reads(member) != _reads(before)


def _reads(member: ConsumerMemberRecord) -> tuple[list[str], str]:
    return sorted(member.topics), member.expression


def reconcile(
    builder: DecisionBuilder, group: ConsumerGroup, member: ConsumerMemberRecord, owned: Partitions | None
) -> CurrentAssignmentRecord:
    """One step towards the target; written where it changes something: a new member leaves epoch 0."""
    before = group.current_of(member.member_id)
    target = group.target_of(member.member_id)
    current = next_step(before, group.target_epoch, target, owned, group.owners)
    if current != before:
        builder.write(current)
        sessions.watch_revocation(builder, group, member, current)
    return current
