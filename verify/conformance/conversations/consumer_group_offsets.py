"""Offsets of groups of the new protocol: who may commit and fetch, in which epoch."""

from __future__ import annotations

from typing import Any

from qanat.wire.kafka.messages.delete_groups import DeleteGroupsRequest
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
    OffsetFetchRequestTopics,
)
from qanat.wire.kafka.registry import ApiKey
from verify.conformance.conversations.consumer_groups import beat, beating, joining
from verify.conformance.play import Play
from verify.conformance.script import conversation, make_group, make_topic


def committing(group: str, member: str, epoch: int, topic: str, offset: int = 5) -> OffsetCommitRequest:
    rows = [OffsetCommitRequestPartition(0, offset, -1, "note")]
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=epoch,
        member_id=member,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=rows)],
    )


def fetching(group: str, member: str | None, epoch: int, topic: str) -> OffsetFetchRequest:
    topics = [OffsetFetchRequestTopics(name=topic, partition_indexes=[0])]
    asked = OffsetFetchRequestGroup(group_id=group, member_id=member, member_epoch=epoch, topics=topics)
    return OffsetFetchRequest(groups=[asked])


def forgetting(group: str, *topics: str) -> Any:
    rows = [OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(0)]) for topic in topics]
    return OffsetDeleteRequest(group, rows)


@conversation
def consumer_group_offsets(play: Play) -> None:
    topic, other = make_topic(play), make_topic(play, "other")
    group = make_group(play)
    beat(play, joining(group, "m1", topic), "joins")
    for note, member, epoch in (
        ("in its epoch", "m1", 1),
        ("in an old epoch", "m1", 0),
        ("in an epoch that is to come", "m1", 2),
        ("a stranger", "m2", 1),
        ("nobody", "", -1),
        ("a member without an epoch", "m1", -1),
    ):
        for version in (8, 9):
            play.exchange(ApiKey.OFFSET_COMMIT, version, committing(group, member, epoch, topic), note)
        play.exchange(ApiKey.OFFSET_FETCH, 9, fetching(group, member or None, epoch, topic), note)
    play.exchange(ApiKey.OFFSET_FETCH, 8, fetching(group, None, -1, topic), "without saying who")
    play.exchange(ApiKey.OFFSET_FETCH, 9, fetching(group, "", 1, topic), "an empty id")
    play.exchange(ApiKey.OFFSET_COMMIT, 9, committing(group, "m1", 1, other), "a topic that it does not read")
    play.exchange(ApiKey.OFFSET_DELETE, 0, forgetting(group, topic, other), "what it reads, and what it does not")
    beat(play, beating(group, "m1", -1), "leaves")
    play.exchange(ApiKey.OFFSET_COMMIT, 9, committing(group, "", -1, topic, 9), "nobody, in an empty group")
    play.exchange(ApiKey.OFFSET_COMMIT, 9, committing(group, "m1", 1, topic, 10), "who has left")
    play.exchange(ApiKey.OFFSET_FETCH, 9, fetching(group, None, -1, topic), "nobody in particular")
    play.exchange(ApiKey.OFFSET_FETCH, 9, fetching(group, "m1", 1, topic), "who has left")
    play.exchange(ApiKey.OFFSET_DELETE, 0, forgetting(group, topic), "nobody reads it now")
    play.exchange(ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest([group]), "is empty")
    play.exchange(ApiKey.OFFSET_COMMIT, 9, committing(group, "m1", 1, topic), "of a group that is gone")
    play.exchange(ApiKey.OFFSET_FETCH, 9, fetching(group, "m1", 1, topic), "of a group that is gone")
