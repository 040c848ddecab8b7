"""ShareGroupHeartbeat, version 1: a member joins, subscribes, leaves; it learns its assignment.

Members never wait for each other: a member gets its target at once, though others may still hold records of it.

Differs from Kafka: partitions are assigned at once, and not some heartbeats later when their state has been prepared;
a fenced member may join again at once, and need not wait until its old session ends.
"""

from __future__ import annotations

from qanat.groups.decision_builder import DecisionBuilder
from qanat.groups.refusals import JOINING, LEAVING, Refusal, full, other_kind, unknown_member
from qanat.groups.replies import AssignmentReply
from qanat.groups.requests import ShareHeartbeat
from qanat.groups.share import removal, sessions
from qanat.groups.share.group import ShareGroup
from qanat.groups.share.records import ShareCurrentRecord, ShareMemberRecord
from qanat.groups.share.requirements import epoch_refusal, is_taken, malformed
from qanat.groups.share.subscriptions import refresh
from qanat.groups.share.target import assign


def heartbeat(builder: DecisionBuilder, request: ShareHeartbeat) -> AssignmentReply:
    group = malformed(request) or _group(builder, request)
    if isinstance(group, Refusal):
        return AssignmentReply(*group)
    before = _member(group, request)
    if isinstance(before, Refusal):
        return AssignmentReply(*before)
    if request.member_epoch == LEAVING:
        removal.remove_member(builder, group, request.member_id)
        return AssignmentReply(member_id=request.member_id, member_epoch=LEAVING)
    return _follow(builder, group, before, request)


def _group(builder: DecisionBuilder, request: ShareHeartbeat) -> ShareGroup | Refusal:
    """The group; a first member creates it where the name is free."""
    group_id = request.group_id
    group = builder.state.ledger.shares.get(group_id)
    if group is None and (is_taken(builder, group_id) or request.member_epoch != JOINING):
        return other_kind("share", group_id)
    if group is None:
        return ShareGroup(group_id)
    size_max = builder.state.settings.group_share_max_size
    if request.member_epoch == JOINING and request.member_id not in group.members and len(group.members) >= size_max:
        return full("share", size_max)
    return group


def _member(group: ShareGroup, request: ShareHeartbeat) -> ShareMemberRecord | Refusal:
    """The member as it was before this heartbeat; a new one has nothing yet."""
    member = group.members.get(request.member_id)
    if member is None:
        if request.member_epoch != JOINING:
            return unknown_member(group.group_id, request.member_id)
        return ShareMemberRecord(group.group_id, request.member_id)
    if request.member_epoch == LEAVING:
        return member
    return epoch_refusal(group.current_of(request.member_id), request.member_epoch) or member


def _follow(
    builder: DecisionBuilder, group: ShareGroup, before: ShareMemberRecord, request: ShareHeartbeat
) -> AssignmentReply:
    """Apply the changes, and return the member's assignment."""
    member = _updated(before, request)
    is_there = member.member_id in group.members
    if not is_there or member != before:
        builder.write(member)
        group = builder.state.ledger.shares[group.group_id]
    refresh(builder, group, is_changed=not is_there or sorted(member.topics) != sorted(before.topics))
    assign(builder, group)
    known = group.current_of(member.member_id)
    current = _reconciled(builder, group, known)
    sessions.renew(builder, group, member.member_id)
    is_full = request.member_epoch == JOINING or request.topics is not None
    return AssignmentReply(
        member_id=member.member_id,
        member_epoch=current.epoch,
        heartbeat_interval_ms=builder.group_overrides(group.group_id).share_heartbeat_interval_ms,
        assignment=current.assigned if is_full or current.assigned != known.assigned else None,
    )


def _updated(member: ShareMemberRecord, request: ShareHeartbeat) -> ShareMemberRecord:
    """Fields that a heartbeat leaves out stay as they are."""
    return ShareMemberRecord(
        member.group_id,
        member.member_id,
        member.rack_id if request.rack_id is None else request.rack_id,
        request.client_id,
        request.client_host,
        member.topics if request.topics is None else tuple(dict.fromkeys(request.topics)),
    )


def _reconciled(builder: DecisionBuilder, group: ShareGroup, before: ShareCurrentRecord) -> ShareCurrentRecord:
    """The member at its target; written where it was not there."""
    if before.epoch == group.target_epoch:
        return before
    target = group.targets.get(before.member_id, ())
    current = ShareCurrentRecord(group.group_id, before.member_id, group.target_epoch, before.epoch, target)
    builder.write(current)
    return current
