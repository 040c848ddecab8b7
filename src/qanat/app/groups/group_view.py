"""A group as its coordinator describes it: classic, consumer (KIP-848) or share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from qanat.connection.assignors import described_assignment
from qanat.connection.cluster import Cluster
from qanat.connection.deadline import Deadline
from qanat.connection.faults import NotOfferedError, RefusedError, check
from qanat.connection.link import Link
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import TopicPartition
from qanat.wire.kafka.messages import consumer_group_describe as consumers
from qanat.wire.kafka.messages import share_group_describe as shares
from qanat.wire.kafka.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from qanat.wire.kafka.registry import ApiKey

DEAD = "Dead"
SHARE = "share"
"""The type of share groups."""
_SPEAKS_CLASSIC = 0


@dataclass(frozen=True, slots=True)
class MemberView:
    """A member with its partitions; `state` tells how far a member of the new protocol follows its assignment."""

    member_id: str
    client_id: str
    client_host: str
    assigned: Sequence[TopicPartition]
    epoch: int | None = None
    state: str = ""
    protocol: str = "classic"


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group. Only groups of the new protocol and share groups have epochs."""

    group_id: str
    state: str
    type: str = "classic"
    assignor: str = ""
    epoch: int | None = None
    target_epoch: int | None = None
    members: Sequence[MemberView] = ()


async def describe_group(cluster: Cluster, group: str, deadline: Deadline) -> GroupView:
    """A group as its coordinator knows it; an unknown group is dead."""

    async def attempt() -> GroupView:
        link = await cluster.coordinator_link(group, deadline)
        response: DescribeGroupsResponse = await link.call(
            ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest([group]), deadline
        )
        (found,) = response.groups
        if found.error_code != ErrorCode.GROUP_ID_NOT_FOUND and found.group_state != DEAD:
            check(f"group {group}", found.error_code, found.error_message)
            return _classic(found)
        return await _consumer_group(link, group, deadline) or await _share_group(link, group, deadline)

    try:
        return await cluster.persist(attempt, deadline)
    except RefusedError as fault:
        if fault.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return GroupView(group, DEAD)


async def _consumer_group(link: Link, group: str, deadline: Deadline) -> GroupView | None:
    """The group, if it is of the new protocol."""
    try:
        answer: consumers.ConsumerGroupDescribeResponse = await link.call(
            ApiKey.CONSUMER_GROUP_DESCRIBE, consumers.ConsumerGroupDescribeRequest([group]), deadline
        )
    except NotOfferedError:
        return None
    (described,) = answer.groups
    if described.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return None
    check(f"group {group}", described.error_code, described.error_message)
    return _consumers(described)


async def _share_group(link: Link, group: str, deadline: Deadline) -> GroupView:
    """The group, if it is a share group; a dead one otherwise."""
    try:
        answer: shares.ShareGroupDescribeResponse = await link.call(
            ApiKey.SHARE_GROUP_DESCRIBE, shares.ShareGroupDescribeRequest([group]), deadline
        )
    except NotOfferedError:
        return GroupView(group, DEAD)
    (described,) = answer.groups
    check(f"group {group}", described.error_code, described.error_message)
    return _shares(described)


def _shares(found: shares.DescribedGroup) -> GroupView:
    members = [
        MemberView(
            one.member_id,
            one.client_id,
            one.client_host,
            _partitions(one.assignment),
            one.member_epoch,
            "settled" if one.member_epoch == found.assignment_epoch else "behind",
            SHARE,
        )
        for one in found.members
    ]
    epochs = (found.group_epoch, found.assignment_epoch)
    return GroupView(found.group_id, found.group_state, SHARE, found.assignor_name, *epochs, members)


def _classic(found: DescribedGroup) -> GroupView:
    members = [
        MemberView(one.member_id, one.client_id, one.client_host, described_assignment(bytes(one.member_assignment)))
        for one in found.members
    ]
    return GroupView(found.group_id, found.group_state, "classic", found.protocol_data, members=members)


def _consumers(found: consumers.DescribedGroup) -> GroupView:
    return GroupView(
        found.group_id,
        found.group_state,
        "consumer",
        found.assignor_name,
        found.group_epoch,
        found.assignment_epoch,
        [_consumer(one, found.assignment_epoch) for one in found.members],
    )


def _consumer(one: consumers.Member, target_epoch: int) -> MemberView:
    assigned, target = _partitions(one.assignment), _partitions(one.target_assignment)
    return MemberView(
        one.member_id,
        one.client_id,
        one.client_host,
        assigned,
        one.member_epoch,
        _state(one.member_epoch, target_epoch, assigned, target),
        "classic" if one.member_type == _SPEAKS_CLASSIC else "consumer",
    )


def _partitions(assignment: consumers.Assignment | shares.Assignment) -> list[TopicPartition]:
    return [TopicPartition(row.topic_name, number) for row in assignment.topic_partitions for number in row.partitions]


def _state(epoch: int, target_epoch: int, assigned: Iterable[TopicPartition], target: Iterable[TopicPartition]) -> str:
    """A member's state, derived from epochs and assignments: the response has none."""
    if epoch < 0:
        return "away"
    if epoch != target_epoch:
        return "behind"
    return "settled" if sorted(assigned) == sorted(target) else "waiting"
