"""Descriptions of consumer groups by their coordinator: state, type and members, in either protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from qanat.connection.assignors import described_assignment
from qanat.model.error_codes import ErrorCode
from qanat.servers.http.problems import Problem, check
from qanat.wire.kafka.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from qanat.wire.kafka.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from qanat.wire.kafka.registry import ApiKey

if TYPE_CHECKING:
    from qanat.servers.http.caller import HttpCaller
    from qanat.servers.http.kafka_gateway import KafkaGateway

_DEAD = "Dead"


class MemberView(msgspec.Struct):
    """A member of a group."""

    member_id: str
    client_id: str
    host: str
    member_epoch: int | None
    assignment: dict[str, list[int]]


async def members_of(gateway: KafkaGateway, caller: HttpCaller, group: str) -> tuple[str, str, list[MemberView]]:
    """State, type and members of a group of either protocol; raises a problem where there is none."""
    response: ConsumerGroupDescribeResponse = await gateway.call_coordinator(
        caller,
        group,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ConsumerGroupDescribeRequest([group]),
        lambda answer: int(answer.groups[0].error_code),
    )
    found = response.groups[0]
    if found.error_code != ErrorCode.GROUP_ID_NOT_FOUND:
        check(found.error_code, f"group {group}", found.error_message)
        members = [
            MemberView(
                one.member_id,
                one.client_id,
                one.client_host.lstrip("/"),
                one.member_epoch,
                {row.topic_name: sorted(row.partitions) for row in one.assignment.topic_partitions},
            )
            for one in found.members
        ]
        return found.group_state, "consumer", members
    return await _classic(gateway, caller, group)


async def _classic(gateway: KafkaGateway, caller: HttpCaller, group: str) -> tuple[str, str, list[MemberView]]:
    response: DescribeGroupsResponse = await gateway.call_coordinator(
        caller,
        group,
        ApiKey.DESCRIBE_GROUPS,
        DescribeGroupsRequest([group]),
        lambda answer: int(answer.groups[0].error_code),
    )
    found = response.groups[0]
    if found.error_code == ErrorCode.GROUP_ID_NOT_FOUND or (not found.error_code and found.group_state == _DEAD):
        raise Problem(
            404, f"there is no group {group}; GET /api/v1/groups lists them", error=ErrorCode.GROUP_ID_NOT_FOUND
        )
    check(found.error_code, f"group {group}", found.error_message)
    members = []
    for one in found.members:
        assignment: dict[str, list[int]] = {}
        for at in described_assignment(bytes(one.member_assignment)):
            assignment.setdefault(at.topic, []).append(at.partition)
        members.append(MemberView(one.member_id, one.client_id, one.client_host.lstrip("/"), None, assignment))
    return found.group_state, "classic", members
