"""Metadata, DescribeTopicPartitions, DescribeCluster, DescribeLogDirs: descriptions of the cluster."""

from __future__ import annotations

from typing import Any

from qanat.wire.kafka.messages.describe_cluster import DescribeClusterRequest
from qanat.wire.kafka.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from qanat.wire.kafka.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    RequestCursor,
    TopicRequest,
)
from qanat.wire.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from qanat.wire.kafka.registry import ApiKey
from verify.conformance.play import Play
from verify.conformance.script import await_topic, batch, conversation, fill, make_topic, topic_id


def _by_name(*names: str | None, create: bool = False, **fields: Any) -> MetadataRequest:
    return MetadataRequest([MetadataRequestTopic(name=name) for name in names], create, **fields)


@conversation
def metadata_in_every_version(play: Play) -> None:
    name = make_topic(play, partitions=2)
    for version in play.versions(ApiKey.METADATA):
        play.exchange(ApiKey.METADATA, version, _by_name(name), "one topic")
        if version > 0:
            play.exchange(ApiKey.METADATA, version, MetadataRequest(None, False), "null: all topics")
        play.exchange(ApiKey.METADATA, version, MetadataRequest([], False), "an empty list")
        if version >= 4:
            play.exchange(ApiKey.METADATA, version, _by_name(name, f"{play.name}-absent"), "one of two is absent")
            play.exchange(ApiKey.METADATA, version, _by_name(name, name), "the same twice")


@conversation
def metadata_of_names_that_cannot_be(play: Play) -> None:
    names = ["", ".", "..", "a b", "a/b", "é", "x" * 249, "x" * 250, "a\0b", "a\r\nb", "a:b"]
    for version in (4, 9, 12):
        for name in names:
            note = repr(name) if len(name) < 20 else f"{len(name)} letters"
            play.exchange(ApiKey.METADATA, version, _by_name(name), note, on=f"{note} v{version}")
    for name in [one for one in names if one != "x" * 249]:
        note = repr(name) if len(name) < 20 else f"{len(name)} letters"
        play.exchange(ApiKey.METADATA, 9, _by_name(name, create=True), f"{note}, to be created", on=f"{note} created")


@conversation
def metadata_by_id(play: Play) -> None:
    name = make_topic(play)
    identity = topic_id(play, name)
    for version in (12,):
        for note, row in {
            "known": MetadataRequestTopic(identity, None),
            "unknown": MetadataRequestTopic(b"\x07" * 16, None),
            "zero id and no name": MetadataRequestTopic(bytes(16), None),
            "id and name": MetadataRequestTopic(identity, name),
        }.items():
            play.exchange(ApiKey.METADATA, version, MetadataRequest([row], False), note, on=note)
    both = [MetadataRequestTopic(identity, None), MetadataRequestTopic(bytes(16), name)]
    play.exchange(ApiKey.METADATA, 12, MetadataRequest(both, False), "one by id, one by name", on="both")
    for version in (10, 11):
        for note, known in (("known", identity), ("unknown", b"\x07" * 16)):
            row = MetadataRequestTopic(known, None)
            play.exchange(
                ApiKey.METADATA, version, MetadataRequest([row], False), f"{note} id", on=f"{note} v{version}"
            )


@conversation
def metadata_creates_topics(play: Play) -> None:
    for version in (0, 3, 4, 9, 12):
        name = f"{play.name}-v{version}"
        play.exchange(ApiKey.METADATA, version, _by_name(name, create=True), "created by asking")
        await_topic(play, name, 4)
        play.exchange(ApiKey.METADATA, version, _by_name(name), "is there")


@conversation
def metadata_with_operations(play: Play) -> None:
    name = make_topic(play)
    for version in (8, 10, 11, 12):
        request = _by_name(
            name,
            include_topic_authorized_operations=True,
            include_cluster_authorized_operations=version < 11,
        )
        play.exchange(ApiKey.METADATA, version, request)


@conversation
def describe_topic_partitions(play: Play) -> None:
    first = make_topic(play, "first", partitions=3)
    second = make_topic(play, "second", partitions=2)

    def exchange(note: str, names: list[str], limit: int = 2000, cursor: RequestCursor | None = None) -> None:
        request = DescribeTopicPartitionsRequest([TopicRequest(name) for name in names], limit, cursor)
        play.exchange(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, request, note, on=note)

    exchange("both", [first, second])
    exchange("the other way round", [second, first])
    exchange("one is absent", [first, f"{play.name}-absent"])
    exchange("the same twice", [first, first])
    exchange("a name that cannot be", ["a b"])
    exchange("four partitions", [first, second], 4)
    exchange("the rest", [first, second], 4, RequestCursor(second, 1))
    exchange("from the middle", [first, second], 2, RequestCursor(first, 1))
    exchange("one partition", [first, second], 1)
    exchange("none at all", [first, second], 0)
    exchange("a cursor on an absent topic", [first, second], 2000, RequestCursor(f"{play.name}-g", 0))
    exchange("a negative cursor", [first], 2000, RequestCursor(first, -1))


@conversation
def describe_cluster(play: Play) -> None:
    for version in play.versions(ApiKey.DESCRIBE_CLUSTER):
        play.exchange(ApiKey.DESCRIBE_CLUSTER, version, DescribeClusterRequest(False))
        play.exchange(ApiKey.DESCRIBE_CLUSTER, version, DescribeClusterRequest(True), "with operations")
    for version in (1, 2):
        for kind in (2, 3):
            request = DescribeClusterRequest(False, kind)
            play.exchange(
                ApiKey.DESCRIBE_CLUSTER, version, request, f"endpoints of kind {kind}", on=f"{kind} v{version}"
            )


@conversation
def describe_log_dirs(play: Play) -> None:
    name = make_topic(play, partitions=2)
    fill(play, name, batch(b"a", b"b"))
    for version in play.versions(ApiKey.DESCRIBE_LOG_DIRS):
        for note, rows in {
            "all": None,
            "one": [DescribableLogDirTopic(name, [0, 1])],
            "one and an unknown partition": [DescribableLogDirTopic(name, [0, 7])],
            "an unknown topic": [DescribableLogDirTopic("nobody", [0])],
            "none": [],
        }.items():
            play.exchange(ApiKey.DESCRIBE_LOG_DIRS, version, DescribeLogDirsRequest(rows), note)
