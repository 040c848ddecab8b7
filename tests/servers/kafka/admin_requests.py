"""Requests of administration in few words."""

from __future__ import annotations

from tests.servers.kafka.raw import RawClient

from qanat.wire.kafka.messages import alter_configs, delete_topics, describe_configs
from qanat.wire.kafka.messages import incremental_alter_configs as incremental
from qanat.wire.kafka.messages import metadata as metadata_messages
from qanat.wire.kafka.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from qanat.wire.kafka.registry import ApiKey

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


def topic(name: str, partitions: int = 1, replicas: int = 1, **settings: str | None) -> CreatableTopic:
    configs = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in settings.items()]
    return CreatableTopic(name, partitions, replicas, [], configs)


def assigned(name: str, *rows: tuple[int, list[int]], partitions: int = -1, replicas: int = -1) -> CreatableTopic:
    return CreatableTopic(name, partitions, replicas, [CreatableReplicaAssignment(*row) for row in rows], [])


def create(
    client: RawClient, *topics: CreatableTopic, version: int = 7, is_dry_run: bool = False, timeout_ms: int = 20_000
) -> list[CreatableTopicResult]:
    request = CreateTopicsRequest(list(topics), timeout_ms, is_dry_run)
    results: list[CreatableTopicResult] = client.ask(ApiKey.CREATE_TOPICS, version, request).topics
    return results


def delete(
    client: RawClient, *names: str, version: int = 5, timeout_ms: int = 20_000
) -> list[delete_topics.DeletableTopicResult]:
    topics = [delete_topics.DeleteTopicState(name) for name in names] if version >= 6 else []
    request = delete_topics.DeleteTopicsRequest(list(names) if version < 6 else [], topics, timeout_ms)
    results: list[delete_topics.DeletableTopicResult] = client.ask(ApiKey.DELETE_TOPICS, version, request).responses
    return results


def describe(
    client: RawClient,
    name: str,
    *settings: str,
    kind: int = TOPIC,
    version: int = 4,
    synonyms: bool = False,
    documentation: bool = False,
) -> describe_configs.DescribeConfigsResult:
    resource = describe_configs.DescribeConfigsResource(kind, name, list(settings) or None)
    request = describe_configs.DescribeConfigsRequest([resource], synonyms, documentation)
    (result,) = client.ask(ApiKey.DESCRIBE_CONFIGS, version, request).results
    assert isinstance(result, describe_configs.DescribeConfigsResult)
    return result


def value_of(client: RawClient, name: str, setting: str) -> str | None:
    (config,) = describe(client, name, setting).configs
    return config.value


def change(
    client: RawClient,
    name: str,
    *acts: tuple[str, int, str | None],
    kind: int = TOPIC,
    version: int = 1,
    is_dry_run: bool = False,
) -> incremental.AlterConfigsResourceResponse:
    resource = incremental.AlterConfigsResource(kind, name, [incremental.AlterableConfig(*act) for act in acts])
    request = incremental.IncrementalAlterConfigsRequest([resource], is_dry_run)
    (response,) = client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, request).responses
    assert isinstance(response, incremental.AlterConfigsResourceResponse)
    return response


def alter(
    client: RawClient, name: str, *, kind: int = TOPIC, version: int = 2, is_dry_run: bool = False, **settings: str
) -> alter_configs.AlterConfigsResourceResponse:
    configs = [alter_configs.AlterableConfig(key.replace("_", "."), value) for key, value in settings.items()]
    resource = alter_configs.AlterConfigsResource(kind, name, configs)
    (response,) = client.ask(
        ApiKey.ALTER_CONFIGS, version, alter_configs.AlterConfigsRequest([resource], is_dry_run)
    ).responses
    assert isinstance(response, alter_configs.AlterConfigsResourceResponse)
    return response


def look(client: RawClient, *names: str) -> dict[str, metadata_messages.MetadataResponseTopic]:
    """What Metadata says of topics, without creating them."""
    asked = [metadata_messages.MetadataRequestTopic(bytes(16), name) for name in names]
    response = client.ask(ApiKey.METADATA, 12, metadata_messages.MetadataRequest(asked, False))
    return {found.name: found for found in response.topics}
