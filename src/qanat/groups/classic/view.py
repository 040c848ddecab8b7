"""DescribeGroups and ListGroups.

- DescribeGroups 6  an unknown group is GROUP_ID_NOT_FOUND; below, it is just `Dead`
- ListGroups 4, 5   filters by state and by type (KIP-518, KIP-848)
"""

from __future__ import annotations

from qanat.groups.classic.group import ClassicGroup, Member
from qanat.groups.classic.states import GroupState
from qanat.groups.consumer.view import listed as listed_consumers
from qanat.groups.decision_builder import DecisionBuilder
from qanat.groups.replies import DescribedMember, DescribeReply, ListedGroup, ListReply
from qanat.groups.requests import DescribeGroup, ListGroups
from qanat.groups.share.view import listed as listed_shares
from qanat.model.error_codes import ErrorCode

CLASSIC = "classic"


def describe(builder: DecisionBuilder, request: DescribeGroup) -> DescribeReply:
    """Subscriptions and the protocol are shown once they are settled, that is, in a stable group."""
    group = builder.state.groups.get(request.group_id)
    if group is None:
        return DescribeReply(request.group_id, ErrorCode.GROUP_ID_NOT_FOUND, GroupState.DEAD)
    protocol_name = group.protocol_name if group.state is GroupState.STABLE else None
    return DescribeReply(
        group.group_id,
        state=group.state,
        protocol_type=group.protocol_type or "",
        protocol_name=protocol_name or "",
        members=tuple(_described(member, protocol_name) for member in group.members.values()),
    )


def _described(member: Member, protocol_name: str | None) -> DescribedMember:
    return DescribedMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.metadata(protocol_name) if protocol_name is not None else b"",
        member.assignment,
    )


def list_groups(builder: DecisionBuilder, request: ListGroups) -> ListReply:
    states = {state.strip().lower() for state in request.states}
    types = {group_type.strip().lower() for group_type in request.types}
    ledger = builder.state.ledger
    found = [
        *map(_listed, builder.state.groups.values()),
        *map(listed_consumers, ledger.consumers.values()),
        *map(listed_shares, ledger.shares.values()),
    ]
    return ListReply(
        groups=tuple(
            group
            for group in found
            if (not states or group.state.lower() in states) and (not types or group.group_type in types)
        )
    )


def _listed(group: ClassicGroup) -> ListedGroup:
    return ListedGroup(group.group_id, group.protocol_type or "", group.state, CLASSIC)
