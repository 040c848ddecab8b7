"""Static members (KIP-345): a member that rejoins by its instance id, and others that claim it."""

from __future__ import annotations

from qanat.wire.kafka.messages.describe_groups import DescribeGroupsRequest
from qanat.wire.kafka.messages.heartbeat import HeartbeatRequest
from qanat.wire.kafka.messages.leave_group import LeaveGroupRequest, MemberIdentity
from qanat.wire.kafka.registry import ApiKey
from verify.conformance.conversations.groups import join, join_request, sync_request
from verify.conformance.play import Play
from verify.conformance.script import conversation, make_group


@conversation
def static_member_comes_back(play: Play) -> None:
    make_group(play)
    for version in (5, 7, 9):
        group = f"{play.name}-v{version}"
        first = join(play, group, version, instance="one")
        request = sync_request(group, first, (first.member_id, b"all"), instance="one")
        play.exchange(ApiKey.SYNC_GROUP, 5, request, "brings its assignment")
        again = play.exchange(
            ApiKey.JOIN_GROUP, version, join_request(group, "", "one"), "comes back under its name", on="b"
        )
        play.exchange(ApiKey.DESCRIBE_GROUPS, 5, DescribeGroupsRequest([group]), "one member")
        beat = HeartbeatRequest(group, first.generation_id, first.member_id, "one")
        play.exchange(ApiKey.HEARTBEAT, 4, beat, "the old self is fenced")
        beat = HeartbeatRequest(group, again.generation_id, again.member_id, "one")
        play.exchange(ApiKey.HEARTBEAT, 4, beat, "the new self is not", on="b")
        beat = HeartbeatRequest(group, again.generation_id, again.member_id, "two")
        play.exchange(ApiKey.HEARTBEAT, 4, beat, "an unknown name", on="b")
        play.exchange(
            ApiKey.SYNC_GROUP, 5, sync_request(group, again, instance="one"), "fetches its assignment again", on="b"
        )
        play.exchange(
            ApiKey.JOIN_GROUP, version, join_request(group, first.member_id, "one"), "the old self joins", on="a"
        )
        play.exchange(
            ApiKey.JOIN_GROUP, version, join_request(group, "stranger", "one"), "a stranger by that name", on="a"
        )


@conversation
def static_members_leave(play: Play) -> None:
    group = make_group(play)
    first = join(play, group, 5, instance="one")
    play.exchange(ApiKey.SYNC_GROUP, 5, sync_request(group, first, (first.member_id, b"all"), instance="one"), "syncs")
    for version in (3, 4, 5):
        for note, row in {
            "an unknown name": MemberIdentity("", "two"),
            "the name with another id": MemberIdentity("stranger", "one"),
        }.items():
            play.exchange(ApiKey.LEAVE_GROUP, version, LeaveGroupRequest(group, "", [row]), note)
    play.exchange(ApiKey.LEAVE_GROUP, 5, LeaveGroupRequest(group, "", [MemberIdentity("", "one")]), "by its name alone")
    play.exchange(ApiKey.DESCRIBE_GROUPS, 5, DescribeGroupsRequest([group]), "empty")
