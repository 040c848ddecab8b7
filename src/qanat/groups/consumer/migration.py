"""From a classic group to one of the new protocol and back, without stopping members (KIP-848).

A classic group of consumers becomes one of the new protocol when such a member joins it: its members stay, with
their assignments, and still use the classic protocol (`classic_members`). When the last member of the new protocol
leaves, the group becomes classic again. An empty group takes the protocol of its next member.
"""

from __future__ import annotations

from collections.abc import Sequence

from qanat.groups.classic.group import ClassicGroup, Member
from qanat.groups.classic.rebalance import prepare, release, renew_session
from qanat.groups.classic.states import GroupState
from qanat.groups.classic.subscription import CONSUMER
from qanat.groups.consumer import sessions
from qanat.groups.consumer.embedded import read_assignment, read_subscription, write_assignment
from qanat.groups.consumer.group import ConsumerGroup
from qanat.groups.consumer.records import (
    ClassicMembership,
    ConsumerGroupRecord,
    ConsumerMemberRecord,
    CurrentAssignmentRecord,
    TargetAssignmentRecord,
    TargetEpochRecord,
)
from qanat.groups.consumer.removal import remove_group
from qanat.groups.decision_builder import DecisionBuilder
from qanat.groups.records import GroupTombstone
from qanat.groups.refusals import Refusal, other_kind
from qanat.groups.requests import Protocol
from qanat.groups.timers import TimerKind
from qanat.model.error_codes import ErrorCode

# To the new protocol


def upgrade_refusal(builder: DecisionBuilder, group_id: str, member_id: str) -> Refusal | None:
    """Why a member of the new protocol cannot join the group of this name; None where it can."""
    if group_id in builder.state.ledger.shares:
        return other_kind("consumer", group_id)
    group = builder.state.groups.get(group_id)
    if group is None or group.state is GroupState.EMPTY:
        return None
    settings = builder.state.settings
    is_possible = (
        settings.may_upgrade
        and group.is_consumer_group
        and len(group.members) < settings.group_consumer_max_size
        and _as_ours(builder, group) is not None
    )
    if not is_possible:
        return other_kind("consumer", group_id)
    if member_id in group.members:
        text = f"Member {member_id} is a member of group {group_id} that uses the classic protocol."
        return Refusal(ErrorCode.FENCED_MEMBER_EPOCH, text)
    return None


def become_ours(builder: DecisionBuilder, group_id: str) -> ConsumerGroup:
    """Replace any group of this name by one of the new protocol."""
    classic = builder.state.groups.pop(group_id, None)
    founded = builder.state.ledger.consumers.setdefault(group_id, ConsumerGroup(group_id))
    if classic is None:
        return founded
    rows = _as_ours(builder, classic) or []
    _dissolve(builder, classic)
    if group_id in builder.state.ledger.groups:
        builder.write(GroupTombstone(group_id))
    if not rows:
        return founded
    for member, _ in rows:
        builder.write(member)
    builder.write(ConsumerGroupRecord(group_id, classic.generation_id))
    for _, current in rows:
        builder.write(TargetAssignmentRecord(group_id, current.member_id, current.assigned))
    builder.write(TargetEpochRecord(group_id, classic.generation_id))
    for member, current in rows:
        builder.write(current)
        sessions.renew_session(builder, founded, member)
    return founded


def _as_ours(
    builder: DecisionBuilder, group: ClassicGroup
) -> list[tuple[ConsumerMemberRecord, CurrentAssignmentRecord]] | None:
    """The members with their assignments; None where a consumer's bytes cannot be read."""
    rows = []
    epoch = group.generation_id
    for member in group.members.values():
        name = group.protocol_name or (member.protocols[0].name if member.protocols else None)
        subscription = read_subscription(member.metadata(name), builder.state.topics)
        assigned = read_assignment(member.assignment, builder.state.topics)
        if subscription is None or assigned is None:
            return None
        protocols = tuple((one.name, one.metadata) for one in member.protocols)
        record = ConsumerMemberRecord(
            group.group_id,
            member.member_id,
            member.instance_id,
            subscription.rack_id,
            member.client_id,
            member.client_host,
            subscription.topics,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            classic=ClassicMembership(member.session_timeout_ms, protocols),
        )
        rows.append(
            (record, CurrentAssignmentRecord(group.group_id, member.member_id, epoch, epoch, assigned=assigned))
        )
    return rows


def _dissolve(builder: DecisionBuilder, group: ClassicGroup) -> None:
    """End the requests that wait for a classic group: its members have to join again."""
    for member in group.members.values():
        release(builder, group, member, ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)
    for member_id in (*group.members, *group.pending_members):
        builder.cancel(TimerKind.SESSION, group, member_id)
    builder.cancel(TimerKind.JOIN, group)
    builder.cancel(TimerKind.SYNC, group)


# Back to the classic protocol


def may_become_classic(builder: DecisionBuilder, group: ConsumerGroup, *, without: Sequence[str]) -> bool:
    """Whether only classic members would be left."""
    left = [member for member_id, member in group.members.items() if member_id not in without]
    return (
        bool(left)
        and all(member.is_classic for member in left)
        and builder.state.settings.may_downgrade
        and len(left) <= builder.state.settings.group_max_size
    )


def become_classic(builder: DecisionBuilder, group: ConsumerGroup, *, without: Sequence[str]) -> ClassicGroup:
    """Replace a group of the new protocol by a classic one of the remaining members, and ask them to join."""
    classic = ClassicGroup(group.group_id, builder.now.wall_ms)
    left = [member for member_id, member in group.members.items() if member_id not in without]
    for member in left:
        classic.add(_as_classic(member), CONSUMER)
    classic.generation_id = group.epoch
    classic.protocol_name = classic.select_protocol()
    classic.update_subscribed_topics()
    for member in left:
        theirs = classic.members[member.member_id]
        subscription = read_subscription(theirs.metadata(classic.protocol_name), builder.state.topics)
        version = subscription.version if subscription is not None else 0
        theirs.assignment = write_assignment(group.target_of(member.member_id), builder.state.topics, version)
    classic.state = GroupState.STABLE
    remove_group(builder, group)
    builder.state.groups[group.group_id] = classic
    builder.write(classic.as_record())
    for theirs in classic.members.values():
        renew_session(builder, classic, theirs)
    prepare(builder, classic)
    return classic


def _as_classic(member: ConsumerMemberRecord) -> Member:
    assert member.classic is not None
    theirs = Member(member.member_id, member.instance_id, member.client_id, member.client_host)
    theirs.protocols = tuple(Protocol(name, metadata) for name, metadata in member.classic.protocols)
    theirs.session_timeout_ms = member.classic.session_timeout_ms
    theirs.rebalance_timeout_ms = member.rebalance_timeout_ms
    return theirs
