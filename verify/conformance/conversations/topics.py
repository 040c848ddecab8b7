"""CreateTopics, DeleteTopics, CreatePartitions, and their errors."""

from __future__ import annotations

from typing import Any

from qanat.wire.kafka.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from qanat.wire.kafka.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from qanat.wire.kafka.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from qanat.wire.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic
from qanat.wire.kafka.registry import ApiKey
from verify.conformance.play import Play
from verify.conformance.script import await_absence, await_topic, conversation, make_topic, topic_id

CREATE, DELETE, GROW = ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS, ApiKey.CREATE_PARTITIONS
IDS_FROM = 6


def wanted(name: str, partitions: int = 1, replicas: int = 1, **settings: str | None) -> CreatableTopic:
    configs = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in settings.items()]
    return CreatableTopic(name, partitions, replicas, [], configs)


def assigned(name: str, *rows: tuple[int, list[int]], partitions: int = -1, replicas: int = -1) -> CreatableTopic:
    return CreatableTopic(name, partitions, replicas, [CreatableReplicaAssignment(*row) for row in rows], [])


def _refused(prefix: str, taken: str) -> dict[str, CreatableTopic]:
    return {
        "taken": wanted(taken),
        "an empty name": wanted(""),
        "a dot": wanted("."),
        "two dots": wanted(".."),
        "a space": wanted("a b"),
        "a slash": wanted("a/b"),
        "250 letters": wanted("x" * 250),
        "no partitions": wanted(f"{prefix}-0", 0),
        "negative partitions": wanted(f"{prefix}-1", -2),
        "no replicas": wanted(f"{prefix}-2", 1, 0),
        "two replicas": wanted(f"{prefix}-3", 1, 2),
        "an unknown setting": wanted(f"{prefix}-4", bogus_setting="1"),
        "a bad number": wanted(f"{prefix}-5", retention_ms="soon"),
        "a number out of range": wanted(f"{prefix}-6", max_message_bytes="-5"),
        "a null setting": wanted(f"{prefix}-7", retention_ms=None),
        "assigned and counted": assigned(f"{prefix}-8", (0, [1]), partitions=1, replicas=1),
        "assigned to strangers": assigned(f"{prefix}-9", (0, [77])),
        "assigned with a gap": assigned(f"{prefix}-10", (1, [1])),
        "assigned twice to one": assigned(f"{prefix}-11", (0, [1, 1])),
        "assigned to nobody": assigned(f"{prefix}-12", (0, [])),
        "one partition assigned twice": assigned(f"{prefix}-13", (0, [1]), (0, [1])),
        "too many partitions": wanted(f"{prefix}-14", 100_000),
        "a name that looks alike": wanted(taken.replace("-", "_").replace("_taken", ".taken")),
    }


@conversation
def create_topics_in_every_version(play: Play) -> None:
    for version in play.versions(CREATE):
        for note, topic in {
            "plain": wanted(f"{play.name}-v{version}", 3),
            "with settings": wanted(f"{play.name}-v{version}-s", retention_ms="1000", cleanup_policy="compact"),
            "assigned": assigned(f"{play.name}-v{version}-a", (0, [1]), (1, [1])),
            "defaults": wanted(f"{play.name}-v{version}-d", -1, -1),
        }.items():
            if note == "defaults" and version < 4:
                continue
            play.exchange(CREATE, version, CreateTopicsRequest([topic], 10_000, False), note)
            again = CreateTopicsRequest([wanted(topic.name)], 10_000, False)
            play.exchange(CREATE, version, again, f"{note}, again")
        name = f"{play.name}-v{version}"
        await_topic(play, name, 3)
        play.exchange(ApiKey.METADATA, 12, MetadataRequest([MetadataRequestTopic(name=name)], False), "is there")


@conversation
def create_topics_refused(play: Play) -> None:
    taken = make_topic(play, "taken")
    for version in (2, 5, 7):
        for note, topic in _refused(f"{play.name}-v{version}", taken).items():
            request = CreateTopicsRequest([topic], 10_000, False)
            play.exchange(CREATE, version, request, note, on=f"{note} v{version}")


@conversation
def create_topics_in_one_request(play: Play) -> None:
    name = f"{play.name}-t"
    for version in (4, 7):
        one, two = wanted(f"{name}-{version}a"), wanted(f"{name}-{version}b")
        play.exchange(CREATE, version, CreateTopicsRequest([one, one, two], 10_000, False), "one of them twice")
        play.exchange(CREATE, version, CreateTopicsRequest([], 10_000, False), "none")
        bad = wanted(f"{name}-{version}c", 1, 3)
        good = wanted(f"{name}-{version}d")
        play.exchange(CREATE, version, CreateTopicsRequest([good, bad], 10_000, False), "one is bad")
        dry = wanted(f"{name}-{version}e", 2, 1, retention_ms="7")
        play.exchange(CREATE, version, CreateTopicsRequest([dry, bad], 10_000, True), "only validated")
        asked = MetadataRequest([MetadataRequestTopic(name=dry.name)], False)
        play.exchange(ApiKey.METADATA, 9, asked, "was only validated")


def _named(version: int, *names: str | None, ids: tuple[bytes, ...] = ()) -> DeleteTopicsRequest:
    if version < IDS_FROM:
        return DeleteTopicsRequest([name or "" for name in names], [], 10_000)
    rows = [DeleteTopicState(name) for name in names] + [DeleteTopicState(None, identity) for identity in ids]
    return DeleteTopicsRequest([], rows, 10_000)


@conversation
def delete_topics_in_every_version(play: Play) -> None:
    for version in play.versions(DELETE):
        name = make_topic(play, f"v{version}")
        other = make_topic(play, f"v{version}-other")
        play.exchange(DELETE, version, _named(version, name))
        await_absence(play, name)
        play.exchange(ApiKey.METADATA, 9, MetadataRequest([MetadataRequestTopic(name=name)], False), "is gone")
        play.exchange(DELETE, version, _named(version, name), "again")
        play.exchange(DELETE, version, _named(version, "a b"), "a name that cannot be")
        play.exchange(DELETE, version, _named(version, "", "nobody"), "two unknown names")
        play.exchange(DELETE, version, _named(version, other, other), "the same twice")
        play.exchange(DELETE, version, _named(version), "none")


@conversation
def delete_topics_by_id(play: Play) -> None:
    name = make_topic(play)
    identity = topic_id(play, name)

    def exchange(note: str, *rows: DeleteTopicState) -> None:
        play.exchange(DELETE, 6, DeleteTopicsRequest([], list(rows), 10_000), note, on=note)

    exchange("an unknown id", DeleteTopicState(None, b"\x07" * 16))
    exchange("neither name nor id", DeleteTopicState(None))
    exchange("name and id", DeleteTopicState(name, identity))
    exchange("by name and by id", DeleteTopicState(name), DeleteTopicState(None, identity))
    exchange("the same id twice", DeleteTopicState(None, identity), DeleteTopicState(None, identity))
    exchange("by id", DeleteTopicState(None, identity))
    await_absence(play, name)
    exchange("by id, again", DeleteTopicState(None, identity))


@conversation
def create_partitions_in_every_version(play: Play) -> None:
    for version in play.versions(GROW):
        name = make_topic(play, f"v{version}", partitions=2)

        def exchange(
            note: str,
            topic: str,
            count: int,
            rows: list[list[int]] | None = None,
            version: int = version,
            **fields: Any,
        ) -> None:
            assignments = None if rows is None else [CreatePartitionsAssignment(row) for row in rows]
            topics = [CreatePartitionsTopic(topic, count, assignments)] * fields.get("times", 1)
            request = CreatePartitionsRequest(topics, 10_000, fields.get("dry", False))
            play.exchange(GROW, version, request, note, on=f"{note} v{version}")

        exchange("as many as there are", name, 2)
        exchange("fewer", name, 1)
        exchange("none", name, 0)
        exchange("negative", name, -1)
        exchange("unknown topic", "nobody", 3)
        exchange("a name that cannot be", "a b", 3)
        exchange("only validated", name, 4, dry=True)
        exchange("too few assignments", name, 4, [[1]])
        exchange("too many assignments", name, 3, [[1], [1]])
        exchange("assigned to strangers", name, 3, [[77]])
        exchange("assigned to nobody", name, 3, [[]])
        exchange("assigned twice to one", name, 3, [[1, 1]])
        exchange("the same topic twice", name, 3, times=2)
        exchange("one more", name, 3)
        await_topic(play, name, 3)
        exchange("one more, assigned", name, 4, [[1]])
        await_topic(play, name, 4)
