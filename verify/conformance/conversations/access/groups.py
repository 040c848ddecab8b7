"""Permissions on groups."""

from __future__ import annotations

from typing import Any

from qanat.wire.kafka.messages import (
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    describe_groups,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)
from qanat.wire.kafka.registry import ApiKey
from verify.conformance.cast import Cast, Make, ask_each, prepared
from verify.conformance.play import Play
from verify.conformance.script import secured_conversation

_MANY_GROUPS_FROM, _MANY_KEYS_FROM, _SHARES_FROM, _MEMBERS_FROM, _ALL_TOPICS_FROM = 8, 4, 6, 3, 2
GROUP_KEY, TRANSACTION_KEY, SHARE_KEY = range(3)


def _commit(cast: Cast, version: int) -> Any:
    def request(group: str) -> offset_commit.OffsetCommitRequest:
        rows = [offset_commit.OffsetCommitRequestPartition(0, 1)]
        topics = [offset_commit.OffsetCommitRequestTopic(name, partitions=rows) for name in cast.topics]
        return offset_commit.OffsetCommitRequest(group, topics=topics)

    return [("", request(cast.groups[0])), ("another group", request(cast.groups[2]))]


def _offsets(cast: Cast, version: int) -> Any:
    groups = cast.groups[0], cast.groups[2]
    if version >= _MANY_GROUPS_FROM:
        topics = [offset_fetch.OffsetFetchRequestTopics(name, partition_indexes=[0]) for name in cast.topics]
        some = [offset_fetch.OffsetFetchRequestGroup(group, topics=topics) for group in groups]
        all_of = [offset_fetch.OffsetFetchRequestGroup(group, topics=None) for group in groups]
        request = offset_fetch.OffsetFetchRequest
        return [("", request(groups=some)), ("all topics", request(groups=all_of))]
    named = [offset_fetch.OffsetFetchRequestTopic(name, [0]) for name in cast.topics]
    requests = [("", offset_fetch.OffsetFetchRequest(groups[0], named))]
    if version >= _ALL_TOPICS_FROM:
        requests.append(("all topics", offset_fetch.OffsetFetchRequest(groups[0], None)))
    return [*requests, ("another group", offset_fetch.OffsetFetchRequest(groups[1], named))]


def _find(cast: Cast, version: int) -> Any:
    request = find_coordinator.FindCoordinatorRequest
    groups, transactions = [cast.groups[0], cast.groups[2]], [cast.transactions[0], cast.transactions[2]]
    if version < _MANY_KEYS_FROM:
        found = [("", request(groups[0])), ("another group", request(groups[1]))]
        return found + ([("of a transaction", request(transactions[0], TRANSACTION_KEY))] if version else [])
    kinds = [("", GROUP_KEY, groups), ("of transactions", TRANSACTION_KEY, transactions)]
    if version >= _SHARES_FROM:
        kinds.append(("of a share", SHARE_KEY, [f"{groups[0]}:{'A' * 22}:0"]))
    return [(note, request(key_type=kind, coordinator_keys=keys)) for note, kind, keys in kinds]


def _join(cast: Cast, version: int) -> Any:
    protocols = [join_group.JoinGroupRequestProtocol("range", b"")]
    return [
        (note, join_group.JoinGroupRequest(group, 6_000, 6_000, "m", None, "consumer", protocols))
        for note, group in (("", cast.groups[1]), ("another group", cast.groups[2]))
    ]


def _leave(cast: Cast, version: int) -> Any:
    if version < _MEMBERS_FROM:
        return leave_group.LeaveGroupRequest(cast.groups[1], "m")
    return leave_group.LeaveGroupRequest(cast.groups[1], members=[leave_group.MemberIdentity("m")])


def _beat(cast: Cast, version: int) -> Any:
    def request(group: str, *topics: str) -> consumer_group_heartbeat.ConsumerGroupHeartbeatRequest:
        return consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
            group, "M" * 21 + "A", 5, subscribed_topic_names=list(topics), topic_partitions=[]
        )

    return [
        ("", request(cast.groups[1], cast.topics[0])),
        ("another topic", request(cast.groups[1], cast.topics[2])),
        ("a missing topic", request(cast.groups[1], cast.topics[3])),
        ("another group", request(cast.groups[2], cast.topics[0])),
    ]


def _offset_delete(cast: Cast, version: int) -> Any:
    rows = [offset_delete.OffsetDeleteRequestPartition(0)]
    topics = [offset_delete.OffsetDeleteRequestTopic(name, rows) for name in cast.topics]
    return [
        ("", offset_delete.OffsetDeleteRequest(cast.groups[0], topics)),
        ("another group", offset_delete.OffsetDeleteRequest(cast.groups[2], topics)),
    ]


CLASSIC: dict[ApiKey, Make] = {
    ApiKey.FIND_COORDINATOR: _find,
    ApiKey.JOIN_GROUP: _join,
    ApiKey.SYNC_GROUP: lambda cast, version: sync_group.SyncGroupRequest(
        cast.groups[1], 1, "m", None, "consumer", "range"
    ),
    ApiKey.HEARTBEAT: lambda cast, version: heartbeat.HeartbeatRequest(cast.groups[1], 1, "m"),
    ApiKey.LEAVE_GROUP: _leave,
}
OFFSETS: dict[ApiKey, Make] = {
    ApiKey.OFFSET_COMMIT: _commit,
    ApiKey.OFFSET_FETCH: _offsets,
    ApiKey.LIST_GROUPS: lambda cast, version: list_groups.ListGroupsRequest(),
    ApiKey.DESCRIBE_GROUPS: lambda cast, version: describe_groups.DescribeGroupsRequest(list(cast.groups), True),
    ApiKey.CONSUMER_GROUP_DESCRIBE: lambda cast, version: consumer_group_describe.ConsumerGroupDescribeRequest(
        list(cast.groups), True
    ),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _beat,
    ApiKey.OFFSET_DELETE: _offset_delete,
    ApiKey.DELETE_GROUPS: lambda cast, version: delete_groups.DeleteGroupsRequest([cast.groups[1], "hidden-none"]),
}


@secured_conversation
def permissions_of_members(play: Play) -> None:
    ask_each(play, prepared(play), CLASSIC)


@secured_conversation
def permissions_on_groups(play: Play) -> None:
    ask_each(play, prepared(play), OFFSETS)
