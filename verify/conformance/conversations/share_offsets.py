"""Offsets of share groups: described, altered and deleted by administrators."""

from __future__ import annotations

from qanat.wire.kafka.messages import alter_share_group_offsets as altering
from qanat.wire.kafka.messages import delete_share_group_offsets as deleting
from qanat.wire.kafka.messages import describe_share_group_offsets as describing
from qanat.wire.kafka.messages.delete_groups import DeleteGroupsRequest
from qanat.wire.kafka.registry import ApiKey
from verify.conformance.conversations.consumer_groups import joining as joining_consumers
from verify.conformance.conversations.share_groups import BEAT, beating, joining, prepare
from verify.conformance.play import Play
from verify.conformance.script import batch, conversation, fill, make_group, make_topic

DESCRIBE = ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS
ALTER = ApiKey.ALTER_SHARE_GROUP_OFFSETS
DELETE = ApiKey.DELETE_SHARE_GROUP_OFFSETS


def describe(play: Play, group: str, note: str, topics: dict[str, list[int]] | None = None, version: int = 0) -> None:
    rows = None
    if topics is not None:
        rows = [describing.DescribeShareGroupOffsetsRequestTopic(*row) for row in topics.items()]
    request = describing.DescribeShareGroupOffsetsRequest(
        [describing.DescribeShareGroupOffsetsRequestGroup(group, rows)]
    )
    play.exchange(DESCRIBE, version, request, note, on=f"describe v{version}")


def alter(play: Play, group: str, note: str, topics: dict[str, list[tuple[int, int]]]) -> None:
    rows = [
        altering.AlterShareGroupOffsetsRequestTopic(
            topic, [altering.AlterShareGroupOffsetsRequestPartition(*row) for row in partitions]
        )
        for topic, partitions in topics.items()
    ]
    play.exchange(ALTER, 0, altering.AlterShareGroupOffsetsRequest(group, rows), note, on="alter")


def delete(play: Play, group: str, note: str, *topics: str) -> None:
    rows = [deleting.DeleteShareGroupOffsetsRequestTopic(topic) for topic in topics]
    play.exchange(DELETE, 0, deleting.DeleteShareGroupOffsetsRequest(group, rows), note, on="delete")


@conversation
def share_group_offsets(play: Play) -> None:
    topic, other = make_topic(play, partitions=2), make_topic(play, "other")
    fill(play, topic, batch(b"1", b"2", b"3"))
    group = make_group(play)
    describe(play, group, "a group that is not there", {topic: [0]})
    describe(play, group, "all of a group that is not there")
    prepare(play, group, topic)
    describe(play, group, "nobody has fetched yet", {topic: [0, 1]})
    describe(play, group, "all, and nobody has fetched yet")
    describe(play, group, "a partition that is not there", {topic: [0, 7]})
    describe(play, group, "a topic that nobody reads", {other: [0]})
    describe(play, group, "a topic that is not there", {"not-there": [0]})
    describe(play, group, "no topics", {})
    alter(play, group, "sets an offset", {topic: [(0, 2)]})
    describe(play, group, "one is set", {topic: [0, 1]})
    describe(play, group, "all, and one is set")
    alter(play, group, "sets more", {topic: [(0, 1), (1, 0)], other: [(0, 0)]})
    describe(play, group, "all, with another topic")
    alter(play, group, "a partition that is not there", {topic: [(0, 0), (7, 0)]})
    alter(play, group, "a topic that is not there", {"not-there": [(0, 0)], topic: [(0, 1)]})
    alter(play, group, "no topics", {})
    delete(play, group, "one topic, and one that is not there", other, "not-there")
    describe(play, group, "one topic is left")
    delete(play, group, "again", other)
    delete(play, group, "no topics")
    describe(play, group, "with lag", {topic: [0]}, version=1)


@conversation
def share_group_offsets_refused(play: Play) -> None:
    topic = make_topic(play)
    group, missing, consumers = make_group(play), make_group(play, "missing"), make_group(play, "c")
    play.quietly(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, joining_consumers(consumers, "m1", topic))
    prepare(play, group, topic)
    play.quietly(BEAT, 1, joining(group, "m1", topic))
    for name, note in ((missing, "is not there"), (consumers, "is another kind of group"), (group, "has a member")):
        describe(play, name, f"of what {note}", {topic: [0]})
        alter(play, name, f"of what {note}", {topic: [(0, 0)]})
        delete(play, name, f"of what {note}", topic)
    play.quietly(BEAT, 1, beating(group, "m1", -1))
    alter(play, group, "a negative offset", {topic: [(0, -5)]})
    alter(play, group, "far beyond the end", {topic: [(0, 500)]})
    describe(play, group, "far beyond the end", {topic: [0]})
    alter(play, "", "of no group", {topic: [(0, 0)]})
    delete(play, "", "of no group", topic)
    describe(play, "", "of no group", {topic: [0]})
    play.exchange(ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest([group]), "the group is deleted")
    describe(play, group, "of a group that is gone")
