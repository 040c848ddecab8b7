"""Consumer groups of the new protocol (KIP-848): heartbeats, epochs, revocation before assignment, static members."""

from __future__ import annotations

from typing import Any

from qanat.wire.kafka.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from qanat.wire.kafka.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    RequestTopicPartitions,
)
from qanat.wire.kafka.messages.delete_groups import DeleteGroupsRequest
from qanat.wire.kafka.messages.describe_groups import DescribeGroupsRequest
from qanat.wire.kafka.messages.list_groups import ListGroupsRequest
from qanat.wire.kafka.registry import ApiKey
from verify.conformance.play import Play
from verify.conformance.script import conversation, make_group, make_topic, topic_id

BEAT = ApiKey.CONSUMER_GROUP_HEARTBEAT
DESCRIBE = ApiKey.CONSUMER_GROUP_DESCRIBE


def joining(group: str, member: str, *topics: str, **fields: Any) -> ConsumerGroupHeartbeatRequest:
    """The first heartbeat of a member, with everything in it."""
    names = list(topics) if topics or "subscribed_topic_regex" not in fields else None
    settings = {"rebalance_timeout_ms": 30_000, "topic_partitions": [], "server_assignor": "range", **fields}
    return ConsumerGroupHeartbeatRequest(
        group_id=group, member_id=member, member_epoch=0, subscribed_topic_names=names, **settings
    )


def beating(group: str, member: str, epoch: int, **fields: Any) -> ConsumerGroupHeartbeatRequest:
    """A heartbeat that says nothing new."""
    return ConsumerGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=epoch, **fields)


def owning(identity: bytes, *partitions: int) -> list[RequestTopicPartitions]:
    return [RequestTopicPartitions(identity, list(partitions))]


def beat(
    play: Play, request: ConsumerGroupHeartbeatRequest, note: str, version: int = 1
) -> ConsumerGroupHeartbeatResponse:
    answer: ConsumerGroupHeartbeatResponse = play.exchange(BEAT, version, request, note)
    return answer


def describe(play: Play, group: str, note: str, version: int = 1) -> None:
    play.exchange(DESCRIBE, version, ConsumerGroupDescribeRequest([group]), note)


@conversation
def consumer_group_in_every_version(play: Play) -> None:
    topic = make_topic(play, partitions=3)
    identity = topic_id(play, topic)
    make_group(play)
    for version in (0, 1):
        group = f"{play.name}-v{version}"
        describe(play, group, "a group that is not there", version)
        beat(play, joining(group, "m1", topic), "joins", version)
        beat(play, beating(group, "m1", 1), "nothing new", version)
        full = beating(group, "m1", 1, rebalance_timeout_ms=30_000, subscribed_topic_names=[topic])
        full.topic_partitions = owning(identity, 0, 1, 2)
        beat(play, full, "says everything again", version)
        describe(play, group, "one member", version)
        beat(play, beating(group, "m1", -1), "leaves", version)
        describe(play, group, "nobody is left", version)
        play.exchange(ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest([group]), "is deleted")
        describe(play, group, "is gone", version)
    answer = play.quietly(BEAT, 0, joining(f"{play.name}-drawn", "", topic))
    assert answer.member_id


@conversation
def consumer_groups_are_listed(play: Play) -> None:
    topic = make_topic(play)
    group = make_group(play)
    beat(play, joining(group, "m1", topic), "joins")
    for version in range(6):
        play.exchange(ApiKey.LIST_GROUPS, version, ListGroupsRequest(), "all")
    for types in (["consumer"], ["Consumer"], ["classic"], ["classic", "consumer"], ["odd"]):
        play.exchange(ApiKey.LIST_GROUPS, 5, ListGroupsRequest([], types), f"of types {types}")
    for states in (["stable"], ["Stable"], ["Empty"], ["reconciling", "assigning"]):
        play.exchange(ApiKey.LIST_GROUPS, 5, ListGroupsRequest(states), f"in states {states}")
    for version in (5, 6):
        play.exchange(ApiKey.DESCRIBE_GROUPS, version, DescribeGroupsRequest([group]), "is no classic group")
    play.exchange(ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest([group]), "has a member")
    request = ConsumerGroupDescribeRequest([group, f"{group}-other"], True)
    play.exchange(DESCRIBE, 1, request, "two groups, with operations")
    beat(play, beating(group, "m1", -1), "leaves")
    play.exchange(ApiKey.LIST_GROUPS, 5, ListGroupsRequest(["Empty"], ["consumer"]), "empty ones")


@conversation
def consumer_group_heartbeats_that_are_wrong(play: Play) -> None:
    topic = make_topic(play)
    group = make_group(play)
    wrong = {
        "no group": joining("", "m1", topic),
        "an epoch below -2": beating(group, "m1", -3),
        "no rebalance timeout": joining(group, "m1", topic, rebalance_timeout_ms=-1),
        "no topics at all": ConsumerGroupHeartbeatRequest(
            group_id=group, member_id="m1", rebalance_timeout_ms=30_000, topic_partitions=[]
        ),
        "says that it owns something": joining(group, "m1", topic, topic_partitions=owning(topic_id(play, topic), 0)),
        "does not say what it owns": joining(group, "m1", topic, topic_partitions=None),
        "an empty instance id": joining(group, "m1", topic, instance_id=""),
        "an empty rack": joining(group, "m1", topic, rack_id=""),
        "an assignor that nobody has": joining(group, "m1", topic, server_assignor="odd"),
        "an unknown group": beating(group, "m1", 1),
        "leaves an unknown group": beating(group, "m1", -1),
        "leaves for a while without a name": beating(group, "m1", -2),
        "no member id and an epoch": beating(group, "", 1),
        "leaves without an id": beating(group, "", -1),
    }
    for version in (0, 1):
        for note, request in wrong.items():
            beat(play, request, note, version)
    beat(play, joining(group, "", topic), "no member id")
    beat(play, joining(group, "m1", subscribed_topic_regex="("), "an expression that is none")
    beat(play, joining(group, "m1", topic), "joins")
    beat(play, beating(group, "m2", 1), "a stranger")
    beat(play, beating(group, "m2", -1), "a stranger leaves")
    beat(play, beating(group, "m1", 1, instance_id="one"), "an unknown name")
    beat(play, beating(group, "m1", 1, subscribed_topic_regex="("), "an expression that is none, later")
    beat(play, beating(group, "m1", 1, server_assignor="odd"), "an assignor that nobody has, later")
    describe(play, group, "all the same")


@conversation
def consumer_group_epochs(play: Play) -> None:
    topic, other = make_topic(play, partitions=2), make_topic(play, "other", partitions=1)
    group, identity = make_group(play), topic_id(play, topic)
    beat(play, joining(group, "m1", topic), "joins")
    beat(play, beating(group, "m1", 2), "an epoch that is to come")
    beat(play, joining(group, "m1", topic), "joins again")
    beat(play, beating(group, "m1", 1, subscribed_topic_names=[topic, other]), "wants more")
    beat(play, beating(group, "m1", 1, topic_partitions=owning(identity, 0)), "did not hear of its epoch")
    beat(play, beating(group, "m1", 1), "did not hear of its epoch, and owns who knows what")
    beat(play, beating(group, "m1", 2, subscribed_topic_names=[topic, other]), "nothing new")
    beat(play, beating(group, "m1", 2, rack_id="r"), "is somewhere else")
    beat(play, beating(group, "m1", 2, server_assignor="uniform"), "likes another assignor")
    describe(play, group, "after all that")
    beat(play, beating(group, "m1", 2, subscribed_topic_names=[other]), "wants less")
    owned = owning(topic_id(play, other), 0)
    beat(play, beating(group, "m1", 2, topic_partitions=owned), "has let go")
    beat(
        play,
        beating(group, "m1", 3, subscribed_topic_names=["not-there"], topic_partitions=[]),
        "wants what is not there",
    )
    beat(play, beating(group, "m1", 0, topic_partitions=[]), "epoch 0 with too little")
    beat(play, joining(group, "m1", topic), "begins anew")
    describe(play, group, "in the end")


@conversation
def consumer_group_rebalances(play: Play) -> None:
    topic = make_topic(play, partitions=4)
    group, identity = make_group(play), topic_id(play, topic)
    beat(play, joining(group, "m1", topic), "the first joins")
    beat(play, joining(group, "m2", topic), "the second joins")
    describe(play, group, "nothing is free yet")
    beat(play, beating(group, "m2", 2), "the second waits")
    beat(play, beating(group, "m1", 1), "the first is told what to let go")
    beat(play, beating(group, "m1", 1), "the first still has it")
    describe(play, group, "the first is letting go")
    beat(play, beating(group, "m1", 1, topic_partitions=owning(identity, 0, 1, 2)), "the first has one too many")
    beat(play, beating(group, "m1", 1, topic_partitions=owning(identity, 0, 1)), "the first has let go")
    beat(play, beating(group, "m2", 2), "the second gets it")
    describe(play, group, "both are there")
    beat(play, beating(group, "m1", 2), "the first knows")
    beat(play, joining(group, "m3", topic), "the third joins")
    beat(play, beating(group, "m2", 2), "the second is told to let go")
    beat(play, beating(group, "m1", -1), "the first leaves meanwhile")
    beat(play, beating(group, "m2", 2, topic_partitions=owning(identity, 2, 3)), "the second keeps what it has")
    beat(play, beating(group, "m2", 2, topic_partitions=owning(identity, 2)), "the second has let go of one")
    beat(play, beating(group, "m2", 3, topic_partitions=[]), "the second has let go of all")
    beat(play, beating(group, "m3", 3), "the third gets its part")
    describe(play, group, "two are left")


@conversation
def consumer_group_static_members(play: Play) -> None:
    topic = make_topic(play, partitions=2)
    group = make_group(play)
    beat(play, joining(group, "m1", topic, instance_id="one"), "joins")
    beat(play, joining(group, "m2", topic, instance_id="one"), "another by its name")
    beat(play, beating(group, "m2", 1, instance_id="one"), "a stranger by its name")
    beat(play, beating(group, "m1", 1, instance_id="two"), "a name that nobody has")
    beat(play, beating(group, "m2", -2, instance_id="one"), "a stranger leaves for it")
    beat(play, beating(group, "m1", -2, instance_id="one"), "leaves for a while")
    describe(play, group, "keeps its place")
    beat(play, beating(group, "m1", 1, instance_id="one"), "beats as if it were there")
    beat(play, joining(group, "m2", topic, instance_id="one"), "comes back under a new id")
    describe(play, group, "in the same epoch")
    beat(play, beating(group, "m1", 1, instance_id="one"), "the old self is fenced")
    beat(play, beating(group, "m1", 1), "the old self without its name")
    beat(play, beating(group, "m2", 1, instance_id="one"), "the new self is not")
    beat(play, beating(group, "m2", -1, instance_id="one"), "leaves for good")
    describe(play, group, "nobody is left")
