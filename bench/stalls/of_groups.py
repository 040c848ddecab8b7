"""Requests about very many groups, members and committed offsets."""

from __future__ import annotations

from collections.abc import Iterator

from bench.stalls.cases import Case, unknown_names
from bench.stalls.crowd import CROWDED, WELL_READ, Crowd, group, member
from qanat.wire.kafka.messages import (
    delete_groups,
    describe_groups,
    find_coordinator,
    join_group,
    leave_group,
    list_groups,
    offset_fetch,
    sync_group,
)
from qanat.wire.kafka.registry import ApiKey


def of_groups(crowd: Crowd) -> Iterator[Case]:
    yield Case(
        ApiKey.OFFSET_FETCH,
        "all offsets of a group",
        lambda rows: offset_fetch.OffsetFetchRequest(
            groups=[offset_fetch.OffsetFetchRequestGroup(WELL_READ, topics=None)]
        ),
        1,
    )
    yield Case(
        ApiKey.OFFSET_FETCH,
        "one topic, very many partitions",
        lambda rows: offset_fetch.OffsetFetchRequest(
            groups=[
                offset_fetch.OffsetFetchRequestGroup(
                    WELL_READ,
                    topics=[offset_fetch.OffsetFetchRequestTopics("read-0000", partition_indexes=list(range(rows)))],
                )
            ]
        ),
    )
    yield Case(
        ApiKey.OFFSET_FETCH,
        "unknown groups",
        lambda rows: offset_fetch.OffsetFetchRequest(
            groups=[offset_fetch.OffsetFetchRequestGroup(name, topics=None) for name in unknown_names(rows)]
        ),
    )
    yield Case(
        ApiKey.FIND_COORDINATOR,
        "groups",
        lambda rows: find_coordinator.FindCoordinatorRequest(coordinator_keys=unknown_names(rows)),
    )
    yield Case(ApiKey.LIST_GROUPS, "all groups", lambda rows: list_groups.ListGroupsRequest(), 1)
    yield Case(
        ApiKey.LIST_GROUPS,
        "many states",
        lambda rows: list_groups.ListGroupsRequest([*unknown_names(rows - 1), "Empty"]),
    )
    yield Case(
        ApiKey.DESCRIBE_GROUPS,
        "a group of many members",
        lambda rows: describe_groups.DescribeGroupsRequest([CROWDED]),
        1,
    )
    yield Case(
        ApiKey.DESCRIBE_GROUPS,
        "known groups",
        lambda rows: describe_groups.DescribeGroupsRequest([group(number) for number in range(rows)]),
        crowd.groups,
    )
    yield Case(
        ApiKey.DESCRIBE_GROUPS,
        "unknown groups",
        lambda rows: describe_groups.DescribeGroupsRequest(unknown_names(rows)),
    )
    yield Case(
        ApiKey.JOIN_GROUP,
        "many protocols",
        lambda rows: join_group.JoinGroupRequest(
            "joined",
            60_000,
            60_000,
            protocol_type="c",
            protocols=[join_group.JoinGroupRequestProtocol(name) for name in unknown_names(rows)],
        ),
    )
    yield Case(
        ApiKey.SYNC_GROUP,
        "many assignments",
        lambda rows: sync_group.SyncGroupRequest(
            CROWDED,
            1,
            member(0),
            None,
            "consumer",
            "range",
            [sync_group.SyncGroupRequestAssignment(name) for name in unknown_names(rows)],
        ),
    )
    yield Case(
        ApiKey.LEAVE_GROUP,
        "unknown members",
        lambda rows: leave_group.LeaveGroupRequest(
            CROWDED, members=[leave_group.MemberIdentity(name) for name in unknown_names(rows)]
        ),
    )
    yield Case(
        ApiKey.LEAVE_GROUP,
        "known members",
        lambda rows: leave_group.LeaveGroupRequest(
            CROWDED, members=[leave_group.MemberIdentity(member(n)) for n in range(rows)]
        ),
        crowd.members - 1,
    )
    yield Case(
        ApiKey.DELETE_GROUPS,
        "known groups",
        lambda rows: delete_groups.DeleteGroupsRequest([group(number) for number in range(rows)]),
        crowd.groups // 2,
    )
    yield Case(
        ApiKey.DELETE_GROUPS, "unknown groups", lambda rows: delete_groups.DeleteGroupsRequest(unknown_names(rows))
    )
