"""Groups on their way from the classic protocol to the new one and back, and subscriptions by expression."""

from __future__ import annotations

import struct
from typing import Any

from qanat.wire.kafka.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from qanat.wire.kafka.messages.describe_groups import DescribeGroupsRequest
from qanat.wire.kafka.messages.heartbeat import HeartbeatRequest
from qanat.wire.kafka.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from qanat.wire.kafka.messages.leave_group import LeaveGroupRequest, MemberIdentity
from qanat.wire.kafka.messages.list_groups import ListGroupsRequest
from qanat.wire.kafka.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from qanat.wire.kafka.registry import ApiKey
from verify.conformance.conversations.consumer_groups import beat, beating, describe, joining, owning
from verify.conformance.play import Play
from verify.conformance.script import conversation, make_group, make_topic, topic_id


def named(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def partitions(topic: str, numbers: tuple[int, ...]) -> bytes:
    """An array of one topic with its partitions, as both structures of the consumer protocol have it."""
    return struct.pack(">i", 1) + named(topic) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)


def subscription(topic: str, *owned: int) -> bytes:
    """ConsumerProtocolSubscription, version 1."""
    head = struct.pack(">hi", 1, 1) + named(topic) + struct.pack(">i", -1)
    return head + (partitions(topic, owned) if owned else struct.pack(">i", 0))


def assignment(topic: str, *numbers: int) -> bytes:
    """ConsumerProtocolAssignment, version 1."""
    return struct.pack(">h", 1) + partitions(topic, numbers) + struct.pack(">i", -1)


def classic_join(group: str, member: str, topic: str, *owned: int, **fields: Any) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        member_id=member,
        protocol_type=fields.pop("protocol_type", "consumer"),
        protocols=[JoinGroupRequestProtocol(fields.pop("protocol", "range"), subscription(topic, *owned))],
        **fields,
    )


def classic_sync(group: str, joined: Any, *rows: tuple[str, bytes]) -> SyncGroupRequest:
    given = [SyncGroupRequestAssignment(*row) for row in rows]
    return SyncGroupRequest(group, joined.generation_id, joined.member_id, None, "consumer", "range", given)


def classic_member(play: Play, group: str, topic: str, *numbers: int) -> Any:
    """A classic group with one member that has these partitions."""
    first = play.exchange(ApiKey.JOIN_GROUP, 9, classic_join(group, "", topic), "a classic member joins")
    joined = play.exchange(ApiKey.JOIN_GROUP, 9, classic_join(group, first.member_id, topic), "joins with its id")
    sync = classic_sync(group, joined, (joined.member_id, assignment(topic, *numbers)))
    play.exchange(ApiKey.SYNC_GROUP, 5, sync, "has everything")
    return joined


@conversation
def consumer_group_upgrade_and_downgrade(play: Play) -> None:
    topic = make_topic(play, partitions=2)
    group, identity = make_group(play), topic_id(play, topic)
    old = classic_member(play, group, topic, 0, 1)

    def classic_beat(note: str, generation: int) -> None:
        request = HeartbeatRequest(group, generation, old.member_id)
        play.exchange(ApiKey.HEARTBEAT, 4, request, note)

    beat(play, joining(group, "zz", topic), "a new member joins")
    play.exchange(ApiKey.LIST_GROUPS, 5, ListGroupsRequest(), "which type now")
    described = play.quietly(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, ConsumerGroupDescribeRequest([group]))
    kinds = sorted((one.member_type, one.member_epoch) for one in described.groups[0].members)
    play.note("types and epochs of members", [list(kind) for kind in kinds])
    classic_beat("the classic member is called", old.generation_id)
    play.exchange(ApiKey.SYNC_GROUP, 5, classic_sync(group, old), "it syncs without joining")
    request = classic_join(group, old.member_id, topic, 0, 1)
    joined = play.exchange(ApiKey.JOIN_GROUP, 9, request, "it joins with what it has")
    play.exchange(ApiKey.SYNC_GROUP, 5, classic_sync(group, joined), "it keeps one partition")
    classic_beat("it has something to let go of", joined.generation_id)
    request = classic_join(group, old.member_id, topic, 0)
    joined = play.exchange(ApiKey.JOIN_GROUP, 9, request, "it joins with less")
    play.exchange(ApiKey.SYNC_GROUP, 5, classic_sync(group, joined), "it has what it should")
    classic_beat("it is settled", joined.generation_id)
    classic_beat("in another generation", joined.generation_id + 5)
    answer = beat(play, beating(group, "zz", 2), "the new member gets its part")
    play.exchange(ApiKey.HEARTBEAT, 4, HeartbeatRequest(group, 2, "zz"), "the new member speaks the old language")
    play.exchange(ApiKey.DESCRIBE_GROUPS, 6, DescribeGroupsRequest([group]), "is no classic group")
    odd = classic_join(group, "", topic, protocol="odd")
    play.exchange(ApiKey.JOIN_GROUP, 9, odd, "another classic member with another assignor")
    odd = classic_join(group, "", topic, protocol_type="connect")
    play.exchange(ApiKey.JOIN_GROUP, 9, odd, "a member of another kind")
    beat(play, beating(group, "zz", -1), "the new member leaves")
    play.exchange(ApiKey.LIST_GROUPS, 5, ListGroupsRequest(), "which type now")
    classic_beat("the classic member is called again", joined.generation_id)
    request = classic_join(group, old.member_id, topic, 0)
    joined = play.exchange(ApiKey.JOIN_GROUP, 9, request, "it joins")
    sync = classic_sync(group, joined, (joined.member_id, assignment(topic, 0, 1)))
    play.exchange(ApiKey.SYNC_GROUP, 5, sync, "it has everything")
    beat(
        play,
        beating(group, "zz", answer.member_epoch, topic_partitions=owning(identity, 1)),
        "the new one is a stranger",
    )
    describe(play, group, "is no group of the new protocol")


FIRST = "!first"
"""A member id before any that Kafka draws, so that the assignment is known."""


@conversation
def consumer_group_takes_in_classic_members(play: Play) -> None:
    topic = make_topic(play, partitions=2)
    group = make_group(play)
    beat(play, joining(group, FIRST, topic), "a new member joins")
    first = play.exchange(ApiKey.JOIN_GROUP, 9, classic_join(group, "", topic), "a classic member joins")
    joined = play.exchange(ApiKey.JOIN_GROUP, 9, classic_join(group, first.member_id, topic), "joins with its id")
    play.exchange(ApiKey.SYNC_GROUP, 5, classic_sync(group, joined), "has nothing yet")
    play.exchange(ApiKey.HEARTBEAT, 4, HeartbeatRequest(group, joined.generation_id, joined.member_id), "waits")
    identity = topic_id(play, topic)
    beat(play, beating(group, FIRST, 1), "the new member is told to let go")
    beat(play, beating(group, FIRST, 1, topic_partitions=owning(identity, 0)), "the new member has let go")
    play.exchange(ApiKey.HEARTBEAT, 4, HeartbeatRequest(group, joined.generation_id, joined.member_id), "is called")
    joined = play.exchange(ApiKey.JOIN_GROUP, 9, classic_join(group, first.member_id, topic), "joins again")
    play.exchange(ApiKey.SYNC_GROUP, 5, classic_sync(group, joined), "has its part")
    leaving = LeaveGroupRequest(group, "", [MemberIdentity(first.member_id), MemberIdentity("odd")])
    play.exchange(ApiKey.LEAVE_GROUP, 5, leaving, "leaves, and so would a stranger")
    describe(play, group, "one is left")
    play.exchange(
        ApiKey.LEAVE_GROUP, 5, LeaveGroupRequest(group, "", [MemberIdentity(FIRST)]), "the new member is taken out"
    )
    play.exchange(ApiKey.LIST_GROUPS, 5, ListGroupsRequest(), "which type now")
    play.exchange(ApiKey.JOIN_GROUP, 9, classic_join(group, "", topic), "a classic member joins the empty group")
    play.exchange(ApiKey.LIST_GROUPS, 5, ListGroupsRequest(), "which type now")


@conversation
def consumer_group_by_expression(play: Play) -> None:
    make_topic(play, "one", partitions=2)
    group = make_group(play)
    expression = f"{play.name}-(one|two)"
    beat_request = joining(group, "m1", subscribed_topic_regex=expression)
    answer = play.quietly(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, beat_request)
    assert not answer.error_code, answer
    epoch = answer.member_epoch

    def has(count: int) -> bool:
        nonlocal epoch
        answer = play.quietly(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, beating(group, "m1", epoch))
        epoch = answer.member_epoch
        described = play.quietly(ApiKey.CONSUMER_GROUP_DESCRIBE, 1, ConsumerGroupDescribeRequest([group]))
        (member,) = described.groups[0].members
        return sum(len(one.partitions) for one in member.assignment.topic_partitions) == count

    play.until(lambda: has(2))
    describe(play, group, "what matches is assigned")
    make_topic(play, "none", partitions=1)
    make_topic(play, "two", partitions=1)
    play.until(lambda: has(3))
    describe(play, group, "so is what is new")
