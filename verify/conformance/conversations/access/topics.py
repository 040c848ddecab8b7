"""Permissions on topics and settings."""

from __future__ import annotations

from typing import Any

from qanat.wire.kafka.messages import (
    alter_configs,
    create_partitions,
    create_topics,
    delete_topics,
    describe_configs,
    describe_topic_partitions,
    incremental_alter_configs,
    list_config_resources,
    metadata,
)
from qanat.wire.kafka.registry import ApiKey
from verify.conformance.cast import Cast, Make, ask_each, prepared
from verify.conformance.play import Play
from verify.conformance.script import await_absence, make_topic, secured_conversation, topic_id
from verify.conformance.users import USERS

TOPIC, BROKER, METRICS, GROUP = 2, 4, 16, 32
_NO_CREATION_FROM, _METADATA_IDS_FROM, _DELETE_IDS_FROM = 4, 12, 6


def _metadata(cast: Cast, version: int) -> Any:
    names = cast.topics if version >= _NO_CREATION_FROM else (cast.topics[0], cast.topics[2])
    named = [metadata.MetadataRequestTopic(name=name) for name in names]
    everything: list[metadata.MetadataRequestTopic] | None = None if version else []
    requests = [
        ("", metadata.MetadataRequest(named, False, True, True)),
        ("all", metadata.MetadataRequest(everything, False)),
    ]
    if version >= _METADATA_IDS_FROM:
        for note, one in zip(("by id", "another, by id", "an unknown id"), cast.ids, strict=True):
            requests.append((note, metadata.MetadataRequest([metadata.MetadataRequestTopic(one, None)], False)))
    return requests


def _describe(cast: Cast, version: int) -> Any:
    named = [describe_topic_partitions.TopicRequest(name) for name in cast.topics]
    request = describe_topic_partitions.DescribeTopicPartitionsRequest
    return [("", request(named)), ("all", request([]))]


def _create(cast: Cast, version: int) -> Any:
    topics = [create_topics.CreatableTopic(name, 1, 1) for name in cast.topics]
    return create_topics.CreateTopicsRequest(topics, 5_000, True)


def _create_partitions(cast: Cast, version: int) -> Any:
    topics = [create_partitions.CreatePartitionsTopic(name, 2, None) for name in cast.topics]
    return create_partitions.CreatePartitionsRequest(topics, 5_000, True)


REQUESTS: dict[ApiKey, Make] = {
    ApiKey.METADATA: _metadata,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: _describe,
    ApiKey.CREATE_TOPICS: _create,
    ApiKey.CREATE_PARTITIONS: _create_partitions,
}


@secured_conversation
def permissions_on_topics(play: Play) -> None:
    ask_each(play, prepared(play), REQUESTS)


def _describe_configs(cast: Cast, version: int) -> Any:
    rows = [describe_configs.DescribeConfigsResource(TOPIC, name, ["cleanup.policy"]) for name in cast.topics]
    rows.append(describe_configs.DescribeConfigsResource(BROKER, "1", ["message.max.bytes"]))
    groups = (cast.groups[0], cast.groups[2])
    rows += [describe_configs.DescribeConfigsResource(GROUP, name, ["share.isolation.level"]) for name in groups]
    return describe_configs.DescribeConfigsRequest(rows)


def _alter_configs(cast: Cast, version: int) -> Any:
    value = [alter_configs.AlterableConfig("retention.ms", "1000")]
    rows = [alter_configs.AlterConfigsResource(TOPIC, name, value) for name in cast.topics]
    rows.append(alter_configs.AlterConfigsResource(BROKER, "1", []))
    value = [alter_configs.AlterableConfig("share.isolation.level", "read_committed")]
    rows += [alter_configs.AlterConfigsResource(GROUP, cast.groups[at], value) for at in (0, 2)]
    return alter_configs.AlterConfigsRequest(rows, True)


def _change_configs(cast: Cast, version: int) -> Any:
    value = [incremental_alter_configs.AlterableConfig("retention.ms", 0, "1000")]
    rows = [incremental_alter_configs.AlterConfigsResource(TOPIC, name, value) for name in cast.topics]
    rows.append(incremental_alter_configs.AlterConfigsResource(BROKER, "1", []))
    value = [incremental_alter_configs.AlterableConfig("share.isolation.level", 0, "read_committed")]
    rows += [incremental_alter_configs.AlterConfigsResource(GROUP, cast.groups[at], value) for at in (0, 2)]
    return incremental_alter_configs.IncrementalAlterConfigsRequest(rows, True)


@secured_conversation
def permissions_on_settings(play: Play) -> None:
    ask_each(
        play,
        prepared(play),
        {
            ApiKey.DESCRIBE_CONFIGS: _describe_configs,
            ApiKey.ALTER_CONFIGS: _alter_configs,
            ApiKey.INCREMENTAL_ALTER_CONFIGS: _change_configs,
        },
    )


@secured_conversation
def permissions_to_delete_topics(play: Play) -> None:
    cast = prepared(play)
    for version in play.versions(ApiKey.DELETE_TOPICS):
        for user in USERS:
            answer = play.exchange(ApiKey.DELETE_TOPICS, version, _by_name(cast, version), "", user)
            _restore(play, cast, answer)
    for user in USERS:
        for note, name in (("by id", cast.topics[0]), ("another, by id", cast.topics[2])):
            _delete_by_id(play, cast, topic_id(play, name), note, user)
        _delete_by_id(play, cast, cast.ids[2], "an unknown id", user)


def _delete_by_id(play: Play, cast: Cast, identity: bytes, note: str, user: str) -> None:
    request = delete_topics.DeleteTopicsRequest([], [delete_topics.DeleteTopicState(None, identity)], 5_000)
    _restore(play, cast, play.exchange(ApiKey.DELETE_TOPICS, _DELETE_IDS_FROM, request, note, user))


def _by_name(cast: Cast, version: int) -> delete_topics.DeleteTopicsRequest:
    if version < _DELETE_IDS_FROM:
        return delete_topics.DeleteTopicsRequest(topic_names=list(cast.topics), timeout_ms=5_000)
    named = [delete_topics.DeleteTopicState(name) for name in cast.topics]
    return delete_topics.DeleteTopicsRequest(topics=named, timeout_ms=5_000)


def _restore(play: Play, cast: Cast, answer: Any) -> None:
    """Create again what was deleted."""
    for row in answer.responses:
        if not row.error_code:
            await_absence(play, row.name)
            make_topic(play, row.name.removeprefix(f"{play.name}-"))


@secured_conversation
def permissions_to_create_topics_by_metadata(play: Play) -> None:
    prepared(play)
    for user in USERS:
        named = [metadata.MetadataRequestTopic(name=f"{play.name}-t-{user}")]
        answer = play.quietly(ApiKey.METADATA, 12, metadata.MetadataRequest(named, True), user)
        code = answer.topics[0].error_code
        is_refused = code not in (0, 3, 5)
        play.note(f"Metadata v12 [{user}]: a new topic", {"error_code": code} if is_refused else "it is created")


@secured_conversation
def permissions_on_names_of_settings(play: Play) -> None:
    """Subscriptions to metrics of clients: their names, and their settings."""

    def listed(cast: Cast, version: int) -> Any:
        return list_config_resources.ListConfigResourcesRequest([METRICS] if version else [])

    ask_each(play, prepared(play), {ApiKey.LIST_CONFIG_RESOURCES: listed})
