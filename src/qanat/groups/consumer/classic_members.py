"""Members that use the classic protocol in a group of the new one: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

A generation is the member's own epoch. A join reports changes and owned partitions, as a heartbeat of the new
protocol does, and is answered at once: no member waits for others, and none is the leader. A sync fetches the
assignment. A heartbeat that finds the member behind, or able to continue, asks it to join.
"""

from __future__ import annotations

from qanat.groups.classic.subscription import CONSUMER
from qanat.groups.consumer import leaving, migration, sessions
from qanat.groups.consumer.embedded import Subscription, read_subscription, write_assignment
from qanat.groups.consumer.group import ConsumerGroup
from qanat.groups.consumer.heartbeat import reconcile, replace_member, subscribe
from qanat.groups.consumer.records import ClassicMembership, ConsumerMemberRecord, MemberState
from qanat.groups.consumer.requirements import named_refusal
from qanat.groups.consumer.subscriptions import refresh
from qanat.groups.consumer.target import assign
from qanat.groups.decision_builder import DecisionBuilder
from qanat.groups.replies import HeartbeatReply, JoinReply, LeaveReply, LeftMember, SyncReply
from qanat.groups.requests import Heartbeat, JoinGroup, LeaveGroup, LeavingMember, SyncGroup
from qanat.model.error_codes import ErrorCode


def join(builder: DecisionBuilder, group: ConsumerGroup, request: JoinGroup) -> JoinReply:
    subscription = _subscription(builder, request)
    error = _join_error(builder, group, request)
    if error is ErrorCode.NONE and subscription is None:
        error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if error is not ErrorCode.NONE or subscription is None:
        return JoinReply(error, request.member_id)
    member_id = request.member_id or request.unique
    if request.member_id == "" and request.instance_id is None and request.needs_member_id:
        return JoinReply(ErrorCode.MEMBER_ID_REQUIRED, member_id)
    before = group.members.get(member_id) or ConsumerMemberRecord(group.group_id, member_id)
    present = group.members.get(group.static_members.get(request.instance_id or "", ""))
    if present is not None and present.member_id != member_id:
        before = replace_member(builder, group, present, member_id)
    member = _member(before, request, subscription)
    is_new = subscribe(builder, group, before, member)
    refresh(builder, group, is_changed=is_new)
    assign(builder, group)
    current = reconcile(builder, group, member, subscription.owned)
    if present is not None and migration.may_become_classic(builder, group, without=()):
        # The last member of the new protocol came back as a classic one.
        migration.become_classic(builder, group, without=())
        return JoinReply(ErrorCode.REBALANCE_IN_PROGRESS, member_id)
    sessions.renew_session(builder, group, member)
    sessions.await_sync(builder, group, member)
    return JoinReply(
        member_id=member_id,
        generation_id=current.epoch,
        protocol_type=CONSUMER,
        protocol_name=request.protocols[0].name,
    )


def _subscription(builder: DecisionBuilder, request: JoinGroup) -> Subscription | None:
    """All protocols of a consumer carry the same subscription."""
    if request.protocol_type != CONSUMER or not request.protocols:
        return None
    return read_subscription(request.protocols[0].metadata, builder.state.topics)


def _join_error(builder: DecisionBuilder, group: ConsumerGroup, request: JoinGroup) -> ErrorCode:
    settings = builder.state.settings
    timeout_ms = request.session_timeout_ms
    if not settings.group_min_session_timeout_ms <= timeout_ms <= settings.group_max_session_timeout_ms:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    is_in = request.member_id in group.members or request.instance_id in group.static_members
    if len(group.members) >= settings.group_consumer_max_size and not is_in:
        return ErrorCode.GROUP_MAX_SIZE_REACHED
    if request.protocol_type != CONSUMER or not _is_shared(group, request):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if request.instance_id is not None and request.member_id != "":
        refusal = named_refusal(group, request.member_id, request.instance_id)
        return ErrorCode.NONE if refusal is None else refusal.error
    return ErrorCode.NONE


def _is_shared(group: ConsumerGroup, request: JoinGroup) -> bool:
    """Classic members must have an assignor in common, in case the group becomes classic again."""
    others = [one.classic for one in group.classic_members if one.member_id != request.member_id]
    return any(
        all(other is not None and any(name == one.name for name, _ in other.protocols) for other in others)
        for one in request.protocols
    )


def _member(before: ConsumerMemberRecord, request: JoinGroup, subscription: Subscription) -> ConsumerMemberRecord:
    rebalance_ms = request.rebalance_timeout_ms if request.rebalance_timeout_ms > 0 else request.session_timeout_ms
    return ConsumerMemberRecord(
        before.group_id,
        before.member_id,
        before.instance_id if request.instance_id is None else request.instance_id,
        before.rack_id if subscription.rack_id is None else subscription.rack_id,
        request.client_id,
        request.client_host,
        subscription.topics,
        "",
        rebalance_ms,
        before.assignor,
        ClassicMembership(request.session_timeout_ms, tuple((one.name, one.metadata) for one in request.protocols)),
    )


def _found(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation_id: int
) -> ConsumerMemberRecord | ErrorCode:
    """The classic member in its generation, or the error where there is none."""
    refusal = None if instance_id is None else named_refusal(group, member_id, instance_id)
    if refusal is not None:
        return refusal.error
    member = group.members.get(member_id)
    if member is None or not member.is_classic:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return member if group.current_of(member_id).epoch == generation_id else ErrorCode.ILLEGAL_GENERATION


def sync(builder: DecisionBuilder, group: ConsumerGroup, request: SyncGroup) -> SyncReply:
    member = _found(group, request.member_id, request.instance_id, request.generation_id)
    if isinstance(member, ErrorCode):
        return SyncReply(member)
    assert member.classic is not None
    name, metadata = member.classic.protocols[0]
    if request.protocol_type not in (None, CONSUMER) or request.protocol_name not in (None, name):
        return SyncReply(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    current = group.current_of(member.member_id)
    if group.epoch > current.epoch and current.state is not MemberState.UNREVOKED:
        sessions.request_join(builder, group, member)
        return SyncReply(ErrorCode.REBALANCE_IN_PROGRESS)
    sessions.end_sync(builder, group, member.member_id)
    sessions.renew_session(builder, group, member)
    subscription = read_subscription(metadata, builder.state.topics)
    version = subscription.version if subscription is not None else 0
    assignment = write_assignment(current.assigned, builder.state.topics, version)
    return SyncReply(ErrorCode.NONE, assignment, CONSUMER, name)


def heartbeat(builder: DecisionBuilder, group: ConsumerGroup, request: Heartbeat) -> HeartbeatReply:
    member = _found(group, request.member_id, request.instance_id, request.generation_id)
    if isinstance(member, ErrorCode):
        return HeartbeatReply(member)
    sessions.renew_session(builder, group, member)
    refresh(builder, group, is_changed=False)
    current = group.current_of(member.member_id)
    can_go_on = current.state is MemberState.UNRELEASED and not group.waits_for_others(member.member_id)
    if current.epoch < group.epoch or current.state is MemberState.UNREVOKED or can_go_on:
        sessions.request_join(builder, group, member)
        return HeartbeatReply(ErrorCode.REBALANCE_IN_PROGRESS)
    return HeartbeatReply()


def leave(builder: DecisionBuilder, group: ConsumerGroup, request: LeaveGroup) -> LeaveReply:
    """Members of either protocol may be removed so, for example by an administrator."""
    outcomes, gone = [], dict[str, None]()
    for one in request.members:
        member_id = _leaving_id(group, one)
        error = ErrorCode.NONE
        if isinstance(member_id, ErrorCode):
            error = member_id
        elif member_id in gone:
            error = ErrorCode.UNKNOWN_MEMBER_ID
        else:
            gone[member_id] = None
        shown = one.member_id if isinstance(member_id, ErrorCode) else member_id
        outcomes.append(LeftMember(shown, one.instance_id, error))
    if gone:
        leaving.remove_members(builder, group, list(gone))
    return LeaveReply(members=tuple(outcomes))


def _leaving_id(group: ConsumerGroup, one: LeavingMember) -> str | ErrorCode:
    if one.instance_id is not None:
        member_id = one.member_id or group.static_members.get(one.instance_id, "")
        refusal = named_refusal(group, member_id, one.instance_id)
        return member_id if refusal is None else refusal.error
    return one.member_id if one.member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID
