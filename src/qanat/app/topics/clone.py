"""`qanat topic clone`: a new topic with the partitions and settings of another, optionally with its records."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from qanat.app.client.arguments import WrongArgumentError, assignments
from qanat.app.client.target import HERE, Target, run
from qanat.app.configs.config_requests import TOPIC, describe_configs
from qanat.app.terminal.listing import Output, Row, counted, print_done
from qanat.app.terminal.progress import count_progress
from qanat.app.topics.record_copy import copy_records, offsets_ahead, reading_of
from qanat.connection.cluster import Cluster
from qanat.connection.faults import check
from qanat.wire.kafka.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from qanat.wire.kafka.registry import ApiKey

_COLUMNS = ("topic", "of", "partitions", "replicas", "settings", "records", "done")
_ITS_OWN = 1
"""DescribeConfigs' source of a setting of the topic itself."""


def clone(
    topic: str,
    name: Annotated[str, Parameter(name="new-topic")],
    /,
    *,
    records: Annotated[bool, Parameter(negative="")] = False,
    settings: Annotated[list[str] | None, Parameter(name=["--config", "-c"], negative="")] = None,
    replicas: Annotated[int | None, Parameter(name=["--replicas", "-r", "--replication-factor"])] = None,
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    output: Output = "table",
    target: Target = HERE,
) -> None:
    """Create a topic with the partitions, replicas and settings of another one.

        qanat topic clone orders orders-copy
        qanat topic clone orders orders-test --records -c retention.ms=3600000

    --records copies everything that the topic holds now, partition by partition and in order: keys, values, headers
    and timestamps. It skips records of uncommitted transactions; offsets begin with 0.

    Parameters
    ----------
    topic:
        The existing topic.
    name:
        Name of the new topic.
    records:
        Copy the records, too.
    settings:
        A setting that differs, as often as needed: -c name=value.
    replicas:
        Replicas of each partition, if the number differs.
    dry_run:
        Let the broker check it, and create nothing.
    output:
        A sentence for people, the others for programs.
    """
    if topic == name:
        raise WrongArgumentError(f"{topic} cannot be cloned to itself: give another name")
    changes = assignments(settings or [])

    async def work(cluster: Cluster) -> Row:
        wanted = await _like(cluster, topic, name, changes, replicas)
        reading = await reading_of(cluster, topic)
        await _create(cluster, wanted, is_dry_run=dry_run)
        copied = None
        if records and not dry_run:
            with count_progress(f"{topic} to {name}", offsets_ahead(reading)) as report_progress:
                copied = await copy_records(cluster, reading, name, report_progress)
        return _row(topic, wanted, offsets_ahead(reading) if records and dry_run else copied, is_dry_run=dry_run)

    row = run(target, work)
    print_done([row], _COLUMNS, output, _sentence)


async def _like(
    cluster: Cluster, topic: str, name: str, changes: dict[str, str], replicas: int | None
) -> CreatableTopic:
    """The topic to create, with the source's own settings, without those of its broker."""
    deadline = cluster.deadline()
    view = await cluster.topic(topic, deadline)
    (found,) = (await cluster.metadata([topic], deadline)).topics
    copies = max((len(partition.replica_nodes) for partition in found.partitions), default=1)
    own = {
        one.name: one.value for one in await describe_configs(cluster, TOPIC, topic) if one.config_source == _ITS_OWN
    }
    configs = [CreatableTopicConfig(setting, value) for setting, value in {**own, **changes}.items()]
    return CreatableTopic(name, len(view.leaders), copies if replicas is None else replicas, configs=configs)


async def _create(cluster: Cluster, wanted: CreatableTopic, *, is_dry_run: bool) -> None:
    deadline = cluster.deadline()
    request = CreateTopicsRequest([wanted], timeout_ms=deadline.left_ms, validate_only=is_dry_run)
    response: CreateTopicsResponse = await cluster.call_controller(ApiKey.CREATE_TOPICS, request, deadline)
    for result in response.topics:
        check(f"cannot create topic {result.name}", result.error_code, result.error_message)


def _row(topic: str, wanted: CreatableTopic, records: int | None, *, is_dry_run: bool) -> Row:
    return {
        "topic": wanted.name,
        "of": topic,
        "partitions": wanted.num_partitions,
        "replicas": wanted.replication_factor,
        "settings": " ".join(f"{one.name}={one.value}" for one in wanted.configs) or None,
        "records": records,
        "done": "would create" if is_dry_run else "created",
    }


def _sentence(row: Row) -> str:
    size = counted(int(str(row["partitions"])), "partition")
    settings = f", {row['settings']}" if row["settings"] else ""
    copied = ""
    if row["records"] is not None:
        verb = "would copy at most" if row["done"] == "would create" else "copied"
        copied = f"; {verb} {counted(int(str(row['records'])), 'record')}"
    return f"{row['done']} {row['topic']} like {row['of']}: {size}{settings}{copied}"
