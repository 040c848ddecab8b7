"""ShareGroupHeartbeat, version 1: a member joins, says what it wants to read, leaves; it learns what to work on.

Nobody waits for anybody: what a member should have it has at once, though others may still be at it.

Differs from Kafka: partitions are assigned at once, and not some heartbeats later when their state has been prepared;
a member that was fenced may join again at once, and need not wait until its old session ends.
"""

from __future__ import annotations

from qanat.groups.consumer.requirements import JOINING, LEAVING, Refusal
from qanat.groups.replies import ShareHeartbeatReply
from qanat.groups.requests import ShareHeartbeat
from qanat.groups.share import removal, sessions
from qanat.groups.share.group import ShareGroup
from qanat.groups.share.records import ShareCurrentRecord, ShareMemberRecord
from qanat.groups.share.requirements import epoch_refusal, is_taken, malformed, no_share_group, unknown_member
from qanat.groups.share.subscriptions import refresh
from qanat.groups.share.target import assign
from qanat.groups.turn import Turn
from qanat.model.error_codes import ErrorCode


def heartbeat(turn: Turn, request: ShareHeartbeat) -> ShareHeartbeatReply:
    group = malformed(request) or _group(turn, request)
    if isinstance(group, Refusal):
        return ShareHeartbeatReply(*group)
    before = _member(group, request)
    if isinstance(before, Refusal):
        return ShareHeartbeatReply(*before)
    if request.member_epoch == LEAVING:
        removal.remove(turn, group, request.member_id)
        return ShareHeartbeatReply(member_id=request.member_id, member_epoch=LEAVING)
    return _follow(turn, group, before, request)


def _group(turn: Turn, request: ShareHeartbeat) -> ShareGroup | Refusal:
    """The group; a first member founds it where there is no other of its name."""
    group_id = request.group_id
    group = turn.state.ledger.shares.get(group_id)
    if group is None and (is_taken(turn, group_id) or request.member_epoch != JOINING):
        return no_share_group(group_id)
    if group is None:
        return ShareGroup(group_id)
    size_max = turn.state.settings.group_share_max_size
    if request.member_epoch == JOINING and request.member_id not in group.members and len(group.members) >= size_max:
        text = f"The share group has reached its maximum capacity of {size_max} members."
        return Refusal(ErrorCode.GROUP_MAX_SIZE_REACHED, text)
    return group


def _member(group: ShareGroup, request: ShareHeartbeat) -> ShareMemberRecord | Refusal:
    """The member as it was before this heartbeat; a new one has nothing yet."""
    member = group.members.get(request.member_id)
    if member is None:
        is_new = request.member_epoch == JOINING
        return (
            ShareMemberRecord(group.group_id, request.member_id) if is_new else unknown_member(group, request.member_id)
        )
    if request.member_epoch == LEAVING:
        return member
    return epoch_refusal(group.current_of(request.member_id), request.member_epoch) or member


def _follow(turn: Turn, group: ShareGroup, before: ShareMemberRecord, request: ShareHeartbeat) -> ShareHeartbeatReply:
    """Take in what is new, and tell the member what it should have."""
    member = _updated(before, request)
    is_there = member.member_id in group.members
    if not is_there or member != before:
        turn.write(member)
        group = turn.state.ledger.shares[group.group_id]
    refresh(turn, group, is_changed=not is_there or sorted(member.topics) != sorted(before.topics))
    assign(turn, group)
    known = group.current_of(member.member_id)
    current = _reconciled(turn, group, known)
    sessions.renew(turn, group, member.member_id)
    is_full = request.member_epoch == JOINING or request.topics is not None
    return ShareHeartbeatReply(
        member_id=member.member_id,
        member_epoch=current.epoch,
        heartbeat_interval_ms=turn.own_settings(group.group_id).share_heartbeat_interval_ms,
        assignment=current.assigned if is_full or current.assigned != known.assigned else None,
    )


def _updated(member: ShareMemberRecord, request: ShareHeartbeat) -> ShareMemberRecord:
    """What a heartbeat does not mention stays as it is."""
    return ShareMemberRecord(
        member.group_id,
        member.member_id,
        member.rack_id if request.rack_id is None else request.rack_id,
        request.client_id,
        request.client_host,
        member.topics if request.topics is None else tuple(dict.fromkeys(request.topics)),
    )


def _reconciled(turn: Turn, group: ShareGroup, before: ShareCurrentRecord) -> ShareCurrentRecord:
    """The member at the target; written down if it was not there."""
    if before.epoch == group.target_epoch:
        return before
    target = group.targets.get(before.member_id, ())
    current = ShareCurrentRecord(group.group_id, before.member_id, group.target_epoch, before.epoch, target)
    turn.write(current)
    return current
