"""Consumer groups: joining, syncing, heartbeats, leaving, and their errors."""

from __future__ import annotations

import struct
from typing import Any

from qanat.wire.kafka.messages.delete_groups import DeleteGroupsRequest
from qanat.wire.kafka.messages.describe_groups import DescribeGroupsRequest
from qanat.wire.kafka.messages.find_coordinator import FindCoordinatorRequest
from qanat.wire.kafka.messages.heartbeat import HeartbeatRequest
from qanat.wire.kafka.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from qanat.wire.kafka.messages.leave_group import LeaveGroupRequest, MemberIdentity
from qanat.wire.kafka.messages.list_groups import ListGroupsRequest
from qanat.wire.kafka.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from qanat.wire.kafka.registry import ApiKey
from verify.conformance.play import Play
from verify.conformance.script import conversation, make_group

MEMBER_ID_FROM = 4
"""From this version of JoinGroup on, a member gets its id first and joins with it."""


def join_request(group: str, member: str = "", instance: str | None = None, **fields: Any) -> JoinGroupRequest:
    protocols = fields.pop("protocols", ("range",))
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=fields.pop("session_timeout_ms", 30_000),
        rebalance_timeout_ms=30_000,
        member_id=member,
        group_instance_id=instance,
        protocol_type=fields.pop("protocol_type", "consumer"),
        protocols=[JoinGroupRequestProtocol(name, subscription(name)) for name in protocols],
    )


def subscription(name: str) -> bytes:
    """A subscription to one topic in the consumer protocol: Kafka decodes it, and does not answer where it cannot."""
    return struct.pack(">hih", 0, 1, len(name)) + name.encode() + struct.pack(">i", -1)


def join(play: Play, group: str, version: int = 5, on: str = "a", **fields: Any) -> Any:
    """Join as the only member; in newer versions with the id of the first response."""
    answer = play.exchange(ApiKey.JOIN_GROUP, version, join_request(group, **fields), "joins", on)
    if version >= MEMBER_ID_FROM and not fields.get("instance"):
        request = join_request(group, answer.member_id, **fields)
        answer = play.exchange(ApiKey.JOIN_GROUP, version, request, "joins with its id", on)
    return answer


def sync_request(group: str, joined: Any, *assignments: tuple[str, bytes], **fields: Any) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=group,
        generation_id=fields.get("generation_id", joined.generation_id),
        member_id=fields.get("member_id", joined.member_id),
        group_instance_id=fields.get("instance"),
        protocol_type=fields.get("protocol_type", "consumer"),
        protocol_name=fields.get("protocol_name", "range"),
        assignments=[SyncGroupRequestAssignment(*row) for row in assignments],
    )


def member_alone(play: Play, group: str, version: int = 5) -> Any:
    """A group of one, stable."""
    joined = join(play, group, version)
    request = sync_request(group, joined, (joined.member_id, b"everything"))
    play.exchange(ApiKey.SYNC_GROUP, 3, request, "brings its assignment")
    return joined


@conversation
def group_of_one_in_every_version(play: Play) -> None:
    make_group(play)
    for version in play.versions(ApiKey.JOIN_GROUP):
        group = f"{play.name}-v{version}"
        joined = join(play, group, version)
        request = sync_request(group, joined, (joined.member_id, b"everything"))
        play.exchange(ApiKey.SYNC_GROUP, min(version, 5), request, "brings its assignment")
        play.exchange(ApiKey.SYNC_GROUP, min(version, 5), sync_request(group, joined), "syncs again")
        beat = HeartbeatRequest(group, joined.generation_id, joined.member_id)
        play.exchange(ApiKey.HEARTBEAT, min(version, 4), beat)
        again = join_request(group, joined.member_id)
        play.exchange(ApiKey.JOIN_GROUP, version, again, "the leader joins again")
        leave = LeaveGroupRequest(group, joined.member_id, [MemberIdentity(joined.member_id, None)])
        play.exchange(ApiKey.LEAVE_GROUP, min(version, 5), leave)
        play.exchange(ApiKey.DESCRIBE_GROUPS, min(version, 6), DescribeGroupsRequest([group]), "empty")


@conversation
def group_of_two(play: Play) -> None:
    group = make_group(play)
    first = member_alone(play, group)
    given = play.exchange(ApiKey.JOIN_GROUP, 5, join_request(group), "asks for an id", on="b").member_id
    play.send(ApiKey.JOIN_GROUP, 5, join_request(group, given), "joins", on="b")

    def is_rebalancing() -> bool:
        beat = HeartbeatRequest(group, first.generation_id, first.member_id)
        return bool(play.quietly(ApiKey.HEARTBEAT, 3, beat).error_code)

    play.until(is_rebalancing)
    beat = HeartbeatRequest(group, first.generation_id, first.member_id)
    play.exchange(ApiKey.HEARTBEAT, 3, beat, "a rebalance is on")
    play.exchange(ApiKey.SYNC_GROUP, 3, sync_request(group, first), "too late")
    play.exchange(ApiKey.DESCRIBE_GROUPS, 5, DescribeGroupsRequest([group]), "preparing")
    leader = play.exchange(ApiKey.JOIN_GROUP, 5, join_request(group, first.member_id), "the first joins again")
    follower = play.receive("b")
    play.exchange(ApiKey.DESCRIBE_GROUPS, 5, DescribeGroupsRequest([group]), "completing")
    play.send(ApiKey.SYNC_GROUP, 3, sync_request(group, follower), "waits for its assignment", on="b")
    parts = (first.member_id, b"half"), (given, b"other half")
    play.exchange(ApiKey.SYNC_GROUP, 3, sync_request(group, leader, *parts), "brings both assignments")
    play.receive("b")
    play.exchange(ApiKey.DESCRIBE_GROUPS, 5, DescribeGroupsRequest([group]), "stable")
    leave = LeaveGroupRequest(group, given, [MemberIdentity(given, None), MemberIdentity("stranger", None)])
    play.exchange(ApiKey.LEAVE_GROUP, 4, leave, "one of two and a stranger", on="b")
    play.until(is_rebalancing)
    play.exchange(
        ApiKey.HEARTBEAT, 3, HeartbeatRequest(group, leader.generation_id, first.member_id), "again a rebalance"
    )


@conversation
def joining_wrongly(play: Play) -> None:
    group = make_group(play)
    cases: dict[str, JoinGroupRequest] = {
        "no group": join_request(""),
        "a session too short": join_request(group, session_timeout_ms=10),
        "a session too long": join_request(group, session_timeout_ms=2_000_000_000),
        "a stranger": join_request(group, "stranger"),
        "no protocols": join_request(f"{group}-2", protocols=()),
        "no protocol type": join_request(f"{group}-3", protocol_type=""),
        "a stranger of a new group": join_request(f"{group}-4", "stranger"),
    }
    for version in (0, 3, 5, 9):
        for note, request in cases.items():
            play.exchange(ApiKey.JOIN_GROUP, version, request, note, on=f"{note} v{version}")
    member_alone(play, group)
    for version in (3, 5, 9):
        for note, request in {
            "another protocol type": join_request(group, protocol_type="connect"),
            "another protocol": join_request(group, protocols=("sticky",)),
        }.items():
            play.exchange(ApiKey.JOIN_GROUP, version, request, note, on=f"{note} v{version}")


@conversation
def syncing_beating_and_leaving_wrongly(play: Play) -> None:
    group = make_group(play)
    joined = member_alone(play, group)
    for version in play.versions(ApiKey.SYNC_GROUP):
        for note, fields in _wrong(joined).items():
            play.exchange(ApiKey.SYNC_GROUP, version, sync_request(group, joined, **fields), note)
        play.exchange(ApiKey.SYNC_GROUP, version, sync_request("", joined), "no group")
        play.exchange(ApiKey.SYNC_GROUP, version, sync_request(f"{group}-2", joined), "another group")
        play.exchange(ApiKey.SYNC_GROUP, version, sync_request(group, joined, protocol_name="x"), "another protocol")
        play.exchange(ApiKey.SYNC_GROUP, version, sync_request(group, joined, protocol_type="x"), "another type")
    for version in play.versions(ApiKey.HEARTBEAT):
        for note, fields in _wrong(joined).items():
            beat = HeartbeatRequest(group, **{**_right(joined), **fields})
            play.exchange(ApiKey.HEARTBEAT, version, beat, note)
        for other in ("", f"{group}-2"):
            play.exchange(ApiKey.HEARTBEAT, version, HeartbeatRequest(other, **_right(joined)), f"group {other[-2:]!r}")
    for version in play.versions(ApiKey.LEAVE_GROUP):
        for note, who in {"a stranger": (group, "stranger"), "no group": ("", "x"), "a new group": ("g0", "x")}.items():
            request = LeaveGroupRequest(*who, [MemberIdentity(who[1], None)])
            play.exchange(ApiKey.LEAVE_GROUP, version, request, note)


def _right(joined: Any) -> dict[str, Any]:
    return {"generation_id": joined.generation_id, "member_id": joined.member_id}


def _wrong(joined: Any) -> dict[str, dict[str, Any]]:
    return {
        "an old generation": {"generation_id": joined.generation_id - 1},
        "a later generation": {"generation_id": joined.generation_id + 1},
        "a stranger": {"member_id": "stranger"},
        "nobody": {"member_id": ""},
    }


@conversation
def groups_described_listed_and_deleted(play: Play) -> None:
    group = make_group(play)
    joined = member_alone(play, group)
    absent = f"{group}-absent"
    for version in play.versions(ApiKey.DESCRIBE_GROUPS):
        play.exchange(ApiKey.DESCRIBE_GROUPS, version, DescribeGroupsRequest([group, absent, ""]))
        if version >= 3:
            play.exchange(ApiKey.DESCRIBE_GROUPS, version, DescribeGroupsRequest([group], True), "with operations")
    for version in play.versions(ApiKey.LIST_GROUPS):
        play.exchange(ApiKey.LIST_GROUPS, version, ListGroupsRequest())
        if version >= 4:
            for states in (["Stable"], ["stable", "Empty"], ["Dead"], ["nonsense"]):
                play.exchange(ApiKey.LIST_GROUPS, version, ListGroupsRequest(states), f"states {states}")
        if version >= 5:
            for kinds in (["classic"], ["Consumer"], ["nonsense"]):
                play.exchange(ApiKey.LIST_GROUPS, version, ListGroupsRequest([], kinds), f"types {kinds}")
    for version in play.versions(ApiKey.DELETE_GROUPS):
        play.exchange(ApiKey.DELETE_GROUPS, version, DeleteGroupsRequest([group, absent, ""]), "one is in use")
    play.exchange(ApiKey.LEAVE_GROUP, 1, LeaveGroupRequest(group, joined.member_id))
    play.exchange(ApiKey.LIST_GROUPS, 5, ListGroupsRequest(), "empty")
    play.exchange(ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest([group]), "not in use")
    play.exchange(ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest([group]), "gone")
    play.exchange(ApiKey.LIST_GROUPS, 5, ListGroupsRequest(), "gone")


@conversation
def coordinators_in_every_version(play: Play) -> None:
    group = make_group(play)
    for version in play.versions(ApiKey.FIND_COORDINATOR):
        if version < 4:
            play.exchange(ApiKey.FIND_COORDINATOR, version, FindCoordinatorRequest(group, 0))
            play.exchange(ApiKey.FIND_COORDINATOR, version, FindCoordinatorRequest("", 0), "no group")
        else:
            for keys in ([group], [group, "other"], [], [""]):
                request = FindCoordinatorRequest("", 0, keys)
                play.exchange(ApiKey.FIND_COORDINATOR, version, request, f"{len(keys)} keys, empty {keys == ['']}")
        for kind in (5, -1):
            request = FindCoordinatorRequest(group, kind, [group])
            if version >= 1:
                play.exchange(ApiKey.FIND_COORDINATOR, version, request, f"kind {kind}", on=f"{kind} v{version}")
    for version in (5, 6):
        request = FindCoordinatorRequest("", 2, ["no share key"])
        play.exchange(ApiKey.FIND_COORDINATOR, version, request, "a share coordinator", on=f"share v{version}")
