"""Requests about very many topics and their settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from bench.stalls.cases import ROWS_MAX, TIMEOUT_MS, Case, twins, unknown_names
from bench.stalls.crowd import Crowd
from qanat.wire.kafka.messages import (
    alter_configs,
    create_partitions,
    create_topics,
    delete_topics,
    describe_configs,
    describe_log_dirs,
    describe_topic_partitions,
    incremental_alter_configs,
    metadata,
)
from qanat.wire.kafka.registry import ApiKey

_TOPIC = 2


def of_topics() -> Iterator[Case]:
    yield Case(ApiKey.METADATA, "all topics", lambda rows: metadata.MetadataRequest(None), 1)
    yield from _by_name("unknown topics", unknown_names, 2_500)
    yield from _by_name("topics named twice", twins, ROWS_MAX)
    yield from _of_all_topics()


def _by_name(what: str, names: Callable[[int], list[str]], most_created: int) -> Iterator[Case]:
    yield Case(
        ApiKey.METADATA,
        what,
        lambda n: metadata.MetadataRequest(
            [metadata.MetadataRequestTopic(name=name) for name in names(n)], allow_auto_topic_creation=False
        ),
    )
    yield Case(
        ApiKey.CREATE_TOPICS,
        what,
        lambda n: create_topics.CreateTopicsRequest(
            [create_topics.CreatableTopic(name, -1, -1) for name in names(n)], TIMEOUT_MS, validate_only=True
        ),
        most_created,
    )
    yield Case(
        ApiKey.CREATE_PARTITIONS,
        what,
        lambda n: create_partitions.CreatePartitionsRequest(
            [create_partitions.CreatePartitionsTopic(name, 2, None) for name in names(n)], TIMEOUT_MS
        ),
    )
    yield Case(
        ApiKey.DELETE_TOPICS,
        what,
        lambda n: delete_topics.DeleteTopicsRequest(
            topics=[delete_topics.DeleteTopicState(name) for name in names(n)], timeout_ms=TIMEOUT_MS
        ),
    )
    yield Case(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        what,
        lambda n: describe_topic_partitions.DescribeTopicPartitionsRequest(
            [describe_topic_partitions.TopicRequest(name) for name in names(n)]
        ),
    )


def _of_all_topics() -> Iterator[Case]:
    yield Case(
        ApiKey.CREATE_TOPICS,
        "a topic of many assignments",
        lambda rows: create_topics.CreateTopicsRequest(
            [
                create_topics.CreatableTopic(
                    "assigned", -1, -1, [create_topics.CreatableReplicaAssignment(n, [0]) for n in range(rows)]
                )
            ],
            TIMEOUT_MS,
            validate_only=True,
        ),
        10_000,
    )
    yield Case(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        "all topics",
        lambda rows: describe_topic_partitions.DescribeTopicPartitionsRequest(),
        1,
    )
    yield Case(
        ApiKey.DESCRIBE_LOG_DIRS, "all partitions", lambda rows: describe_log_dirs.DescribeLogDirsRequest(None), 1
    )
    yield Case(
        ApiKey.DESCRIBE_LOG_DIRS,
        "unknown partitions",
        lambda rows: describe_log_dirs.DescribeLogDirsRequest(
            [describe_log_dirs.DescribableLogDirTopic("s", list(range(rows)))]
        ),
    )


def of_settings(crowd: Crowd) -> Iterator[Case]:
    names = crowd.topic_names()
    yield Case(
        ApiKey.DESCRIBE_CONFIGS,
        "known topics",
        lambda rows: describe_configs.DescribeConfigsRequest(
            [describe_configs.DescribeConfigsResource(_TOPIC, name, None) for name in names[:rows]],
            include_synonyms=True,
        ),
        len(names),
    )
    yield Case(
        ApiKey.DESCRIBE_CONFIGS,
        "unknown topics",
        lambda rows: describe_configs.DescribeConfigsRequest(
            [describe_configs.DescribeConfigsResource(_TOPIC, name, None) for name in unknown_names(rows)]
        ),
    )
    yield Case(
        ApiKey.DESCRIBE_CONFIGS,
        "one topic, many unknown settings",
        lambda rows: describe_configs.DescribeConfigsRequest(
            [describe_configs.DescribeConfigsResource(_TOPIC, names[0], unknown_names(rows))]
        ),
    )
    yield from _of_changes(ApiKey.ALTER_CONFIGS, alter_configs, ("1000",), alter_configs.AlterConfigsRequest, names)
    incremental = incremental_alter_configs.IncrementalAlterConfigsRequest
    yield from _of_changes(ApiKey.INCREMENTAL_ALTER_CONFIGS, incremental_alter_configs, (0, "1000"), incremental, names)


def _of_changes(
    key: ApiKey, codec: Any, values: tuple[Any, ...], asked: Callable[[list[Any]], Any], names: list[str]
) -> Iterator[Case]:
    def resource(name: str, settings: list[str]) -> Any:
        return codec.AlterConfigsResource(
            _TOPIC, name, [codec.AlterableConfig(setting, *values) for setting in settings]
        )

    yield Case(
        key,
        "known topics",
        lambda n: asked([resource(name, ["retention.ms"]) for name in names[:n]]),
        500,
    )
    yield Case(
        key,
        "unknown topics",
        lambda n: asked([resource(name, ["retention.ms"]) for name in unknown_names(n)]),
    )
    yield Case(
        key,
        "one topic, many unknown settings",
        lambda n: asked([resource(names[0], unknown_names(n))]),
    )
