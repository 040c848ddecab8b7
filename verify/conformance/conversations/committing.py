"""Committed offsets: OffsetCommit, OffsetFetch, OffsetDelete."""

from __future__ import annotations

from typing import Any

from qanat.wire.kafka.messages.delete_groups import DeleteGroupsRequest
from qanat.wire.kafka.messages.describe_groups import DescribeGroupsRequest
from qanat.wire.kafka.messages.list_groups import ListGroupsRequest
from qanat.wire.kafka.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from qanat.wire.kafka.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from qanat.wire.kafka.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from qanat.wire.kafka.registry import ApiKey
from verify.conformance.conversations.groups import member_alone
from verify.conformance.play import Play
from verify.conformance.script import conversation, make_group, make_topic

GROUPS_FROM = 8


def commit_request(
    group: str, topic: str, partition: int = 0, offset: int = 5, note: str | None = "note", **fields: Any
) -> OffsetCommitRequest:
    row = OffsetCommitRequestPartition(partition, offset, 0, note)
    generation = fields.pop("generation", -1)
    topics = [OffsetCommitRequestTopic(topic, partitions=[row])]
    return OffsetCommitRequest(group, generation, fields.pop("member", ""), -1, fields.pop("instance", None), topics)


def fetch_offsets(play: Play, version: int, note: str, group: str, rows: list[tuple[str, list[int]]] | None) -> None:
    """In the old form or in that of several groups, depending on the version."""
    old = None if rows is None else [OffsetFetchRequestTopic(*row) for row in rows]
    new = None if rows is None else [OffsetFetchRequestTopics(name, partition_indexes=found) for name, found in rows]
    if version < GROUPS_FROM:
        request = OffsetFetchRequest(group, old)
    else:
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, None, -1, new)])
    play.exchange(ApiKey.OFFSET_FETCH, version, request, note)


@conversation
def commit_without_a_group_in_every_version(play: Play) -> None:
    topic = make_topic(play, partitions=3)
    group = make_group(play)
    for version in play.versions(ApiKey.OFFSET_COMMIT):
        play.exchange(ApiKey.OFFSET_COMMIT, version, commit_request(group, topic, offset=10 + version))
        play.exchange(ApiKey.OFFSET_COMMIT, version, commit_request(group, topic, 1, note=None), "no note")
        play.exchange(ApiKey.OFFSET_COMMIT, version, commit_request(group, "nobody"), "unknown topic")
        play.exchange(ApiKey.OFFSET_COMMIT, version, commit_request(group, topic, 9), "unknown partition")
        play.exchange(ApiKey.OFFSET_COMMIT, version, commit_request(group, topic, note="x" * 5000), "a note too long")
        play.exchange(ApiKey.OFFSET_COMMIT, version, commit_request(group, topic, generation=3), "a generation")
        play.exchange(ApiKey.OFFSET_COMMIT, version, commit_request(group, topic, member="stranger"), "a stranger")
        play.exchange(ApiKey.OFFSET_COMMIT, version, commit_request("", topic), "no group")
        play.exchange(ApiKey.OFFSET_COMMIT, version, commit_request(group, topic, 2, -1), "a negative offset")
        new = commit_request(f"{group}-new", topic, generation=3, member="stranger")
        play.exchange(ApiKey.OFFSET_COMMIT, version, new, "a stranger of a new group")
    for version in play.versions(ApiKey.OFFSET_FETCH):
        fetch_offsets(play, version, "two", group, [(topic, [0, 1])])
        fetch_offsets(play, version, "not committed", group, [(topic, [2]), ("nobody", [0])])
        if version >= 2:
            fetch_offsets(play, version, "all", group, None)
        fetch_offsets(play, version, "nothing", group, [])
        fetch_offsets(play, version, "an absent group", f"{group}-absent", [(topic, [0])])
        fetch_offsets(play, version, "no group", "", [(topic, [0])])


@conversation
def commit_as_a_member(play: Play) -> None:
    topic = make_topic(play)
    group = make_group(play)
    joined = member_alone(play, group)
    right: dict[str, Any] = {"generation": joined.generation_id, "member": joined.member_id}
    for version in play.versions(ApiKey.OFFSET_COMMIT):
        ways: dict[str, dict[str, Any]] = {
            "as it should": {},
            "an old generation": {"generation": 0},
            "a later generation": {"generation": 9},
            "a stranger": {"member": "stranger"},
            "as nobody": {"generation": -1, "member": ""},
        }
        for note, fields in ways.items():
            play.exchange(ApiKey.OFFSET_COMMIT, version, commit_request(group, topic, **{**right, **fields}), note)
    for version in (7, 9):
        request = commit_request(group, topic, instance="one", **right)
        play.exchange(ApiKey.OFFSET_COMMIT, version, request, "an unknown name of a member")


@conversation
def offsets_of_several_groups(play: Play) -> None:
    topic = make_topic(play)
    groups = [make_group(play, suffix) for suffix in ("x", "y")]
    for group in groups:
        play.exchange(ApiKey.OFFSET_COMMIT, 8, commit_request(group, topic))
    for version in (8, 9):
        rows = [
            OffsetFetchRequestGroup(group, None, -1, [OffsetFetchRequestTopics(topic, partition_indexes=[0])])
            for group in [*groups, f"{play.name}-absent"]
        ]
        play.exchange(ApiKey.OFFSET_FETCH, version, OffsetFetchRequest(groups=rows), "three groups")
        play.exchange(ApiKey.OFFSET_FETCH, version, OffsetFetchRequest(groups=rows, require_stable=True), "stable ones")
        play.exchange(ApiKey.OFFSET_FETCH, version, OffsetFetchRequest(groups=[]), "no groups")


@conversation
def offsets_deleted(play: Play) -> None:
    topic = make_topic(play, partitions=2)
    group = make_group(play)

    def exchange(note: str, name: str, *rows: tuple[str, int]) -> None:
        topics = [OffsetDeleteRequestTopic(row[0], [OffsetDeleteRequestPartition(row[1])]) for row in rows]
        play.exchange(ApiKey.OFFSET_DELETE, 0, OffsetDeleteRequest(name, topics), note)

    play.exchange(ApiKey.OFFSET_COMMIT, 8, commit_request(group, topic))
    exchange("committed", group, (topic, 0))
    exchange("not committed", group, (topic, 1))
    exchange("unknown", group, ("nobody", 0), (topic, 7))
    exchange("no group", "", (topic, 0))
    exchange("an absent group", f"{group}-absent", (topic, 0))
    fetch_offsets(play, 7, "gone", group, [(topic, [0])])
    play.exchange(ApiKey.OFFSET_COMMIT, 8, commit_request(group, topic))
    play.exchange(ApiKey.LIST_GROUPS, 5, ListGroupsRequest(), "a group of offsets alone")
    play.exchange(ApiKey.DESCRIBE_GROUPS, 5, DescribeGroupsRequest([group]), "a group of offsets alone")
    play.exchange(ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest([group]))
    fetch_offsets(play, 7, "gone with the group", group, [(topic, [0])])
    busy = make_group(play, "busy")
    member_alone(play, busy)
    exchange("of a group in use", busy, (topic, 0))
