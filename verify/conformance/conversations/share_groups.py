"""Members of share groups (KIP-932): heartbeats, epochs, shared partitions, and requests of other group types."""

from __future__ import annotations

from typing import Any

from qanat.wire.kafka.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from qanat.wire.kafka.messages.delete_groups import DeleteGroupsRequest
from qanat.wire.kafka.messages.describe_groups import DescribeGroupsRequest
from qanat.wire.kafka.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from qanat.wire.kafka.messages.list_groups import ListGroupsRequest
from qanat.wire.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from qanat.wire.kafka.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from qanat.wire.kafka.messages.share_group_describe import ShareGroupDescribeRequest
from qanat.wire.kafka.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from qanat.wire.kafka.registry import ApiKey
from verify.conformance.conversations.consumer_groups import joining as joining_consumers
from verify.conformance.play import Play
from verify.conformance.script import conversation, make_group, make_topic

BEAT = ApiKey.SHARE_GROUP_HEARTBEAT
DESCRIBE = ApiKey.SHARE_GROUP_DESCRIBE


def joining(group: str, member: str, *topics: str, **fields: Any) -> ShareGroupHeartbeatRequest:
    return ShareGroupHeartbeatRequest(group, member, 0, subscribed_topic_names=list(topics), **fields)


def beating(group: str, member: str, epoch: int, **fields: Any) -> ShareGroupHeartbeatRequest:
    """A heartbeat that says nothing new."""
    return ShareGroupHeartbeatRequest(group, member, epoch, **fields)


def beat(play: Play, request: ShareGroupHeartbeatRequest, note: str) -> ShareGroupHeartbeatResponse:
    answer: ShareGroupHeartbeatResponse = play.exchange(BEAT, 1, request, note)
    return answer


def describe(play: Play, group: str, note: str) -> None:
    play.exchange(DESCRIBE, 1, ShareGroupDescribeRequest([group]), note)


_EPOCH = 10
"""The group epoch in which every conversation begins."""


def prepare(play: Play, group: str, *topics: str) -> None:
    """A group that has read these topics before and is empty now, in the same epoch on both brokers.

    Kafka assigns partitions once their state is initialized, with a new epoch.
    """
    play.quietly(BEAT, 1, joining(group, "m0", *topics))

    def is_assigned() -> bool:
        answer = play.quietly(BEAT, 1, beating(group, "m0", epoch_of(play, group), subscribed_topic_names=list(topics)))
        return answer.assignment is not None and len(answer.assignment.topic_partitions) == len(topics)

    play.until(is_assigned)
    names: list[str] = []
    while (epoch := epoch_of(play, group)) < _EPOCH - 1:
        play.quietly(BEAT, 1, beating(group, "m0", epoch, subscribed_topic_names=names))
        names = [] if names else list(topics)
    play.quietly(BEAT, 1, beating(group, "m0", -1))


def epoch_of(play: Play, group: str) -> int:
    return int(play.quietly(DESCRIBE, 1, ShareGroupDescribeRequest([group])).groups[0].group_epoch)


@conversation
def share_group_of_one(play: Play) -> None:
    topic = make_topic(play, partitions=3)
    group = make_group(play)
    describe(play, group, "a group that is not there")
    prepare(play, group, topic)
    epoch = beat(play, joining(group, "m1", topic), "joins").member_epoch
    beat(play, beating(group, "m1", epoch), "nothing new")
    beat(play, beating(group, "m1", epoch, subscribed_topic_names=[topic]), "says everything again")
    describe(play, group, "one member")
    beat(play, beating(group, "m1", epoch, rack_id="r"), "is somewhere else")
    beat(play, beating(group, "m1", epoch + 5), "an epoch that is to come")
    beat(play, beating(group, "m1", epoch, subscribed_topic_names=["not-there"]), "wants what is not there")
    describe(play, group, "reads nothing")
    beat(play, beating(group, "m1", -1), "leaves")
    describe(play, group, "nobody is left")
    beat(play, beating(group, "m1", -1), "leaves again")
    beat(play, beating(group, "m1", epoch), "a member that has left")
    play.exchange(ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest([group]), "is deleted")
    describe(play, group, "is gone")


@conversation
def share_group_begins(play: Play) -> None:
    """Where Kafka and Qanat differ: how soon a first member gets partitions, and whether it may join again."""
    topic, group = make_topic(play), make_group(play)
    beat(play, joining(group, "m1", topic), "a first member of a new group")
    other = make_group(play, "other")
    prepare(play, other, topic)
    epoch = beat(play, joining(other, "m1", topic), "a member of another").member_epoch
    epoch = beat(play, beating(other, "m1", epoch, subscribed_topic_names=[]), "wants nothing").member_epoch
    beat(play, joining(other, "m1", topic), "begins anew")


@conversation
def share_group_of_many(play: Play) -> None:
    topic = make_topic(play, partitions=2)
    group = make_group(play)
    prepare(play, group, topic)
    first = beat(play, joining(group, "m1", topic), "the first joins").member_epoch
    second = beat(play, joining(group, "m2", topic), "the second joins").member_epoch
    beat(play, joining(group, "m3", topic), "the third joins")
    beat(play, beating(group, "m1", first), "the first hears of it")
    beat(play, beating(group, "m2", second), "the second hears of it")
    describe(play, group, "three at two partitions")
    beat(play, beating(group, "m1", -1), "the first leaves")
    describe(play, group, "two are left")
    beat(play, beating(group, "m2", second), "the second hears of that")


@conversation
def share_group_heartbeats_that_are_wrong(play: Play) -> None:
    topic = make_topic(play)
    group = make_group(play)
    wrong = {
        "no group": joining("", "m1", topic),
        "a blank group": joining(" ", "m1", topic),
        "no member id": joining(group, "", topic),
        "no topics at all": ShareGroupHeartbeatRequest(group, "m1", 0),
        "an empty list of topics": joining(group, "m1"),
        "an empty rack": joining(group, "m1", topic, rack_id=""),
        "an epoch below -1": beating(group, "m1", -2),
        "an unknown group": beating(group, "m1", 1),
        "leaves an unknown group": beating(group, "m1", -1),
        "no member id and an epoch": beating(group, "", 1),
        "leaves without an id": beating(group, "", -1),
    }
    for note, request in wrong.items():
        beat(play, request, note)
    beat(play, joining(group, "m1", topic), "joins")
    beat(play, beating(group, "m2", 1), "a stranger")
    beat(play, beating(group, "m2", -1), "a stranger leaves")
    beat(play, beating(group, "m1", 1, rack_id=""), "an empty rack, later")
    beat(play, beating(group, "m1", 1, subscribed_topic_names=[]), "wants nothing")


@conversation
def share_groups_among_others(play: Play) -> None:
    topic = make_topic(play)
    share, consumers = make_group(play, "s"), make_group(play, "c")
    beat(play, joining(share, "m1", topic), "joins")
    play.quietly(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, joining_consumers(consumers, "m1", topic))
    for version in range(6):
        play.exchange(ApiKey.LIST_GROUPS, version, ListGroupsRequest(), "all")
    for types in (["share"], ["Share"], ["consumer"], ["share", "consumer"]):
        play.exchange(ApiKey.LIST_GROUPS, 5, ListGroupsRequest([], types), f"of types {types}")
    for states in (["stable"], ["Empty"]):
        play.exchange(ApiKey.LIST_GROUPS, 5, ListGroupsRequest(states), f"in states {states}")
    play.exchange(DESCRIBE, 1, ShareGroupDescribeRequest([share, consumers, ""], True), "three groups, with operations")
    for version in (5, 6):
        play.exchange(ApiKey.DESCRIBE_GROUPS, version, DescribeGroupsRequest([share]), "is no classic group")
    play.exchange(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, ConsumerGroupDescribeRequest([share]), "is no consumer group")
    play.exchange(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, joining_consumers(share, "m2", topic), "a consumer joins")
    beat(play, joining(consumers, "m2", topic), "a consumer group is joined")
    beat(play, beating(consumers, "m1", 1), "a consumer group is met")
    beat(play, beating(consumers, "m1", -1), "a consumer group is left")
    protocols = [JoinGroupRequestProtocol("range", b"")]
    join = JoinGroupRequest(share, 10_000, 10_000, "", None, "consumer", protocols)
    play.exchange(ApiKey.JOIN_GROUP, 5, join, "a classic consumer joins")
    row = OffsetCommitRequestTopic(topic, bytes(16), [OffsetCommitRequestPartition(0, 5)])
    play.exchange(ApiKey.OFFSET_COMMIT, 9, OffsetCommitRequest(share, -1, "", topics=[row]), "somebody commits")
    play.exchange(ApiKey.OFFSET_COMMIT, 8, OffsetCommitRequest(share, -1, "", topics=[row]), "somebody commits")
    fetch = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(share, None, -1, None)])
    play.exchange(ApiKey.OFFSET_FETCH, 9, fetch, "somebody fetches")
    play.exchange(ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest([share]), "has a member")
    beat(play, beating(share, "m1", -1), "leaves")
    play.exchange(ApiKey.LIST_GROUPS, 5, ListGroupsRequest(["Empty"], ["share"]), "empty ones")
    play.exchange(
        ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, joining_consumers(share, "m2", topic), "a consumer joins, all gone"
    )
    play.exchange(ApiKey.JOIN_GROUP, 5, join, "a classic consumer joins, all gone")
