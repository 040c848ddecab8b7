"""`qanat topic create`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from qanat.app.client.arguments import assignments
from qanat.app.client.target import HERE, Target, run
from qanat.app.terminal.listing import Output, Row, print_done
from qanat.app.topics.outcome import DONE_COLUMNS, done_sentence
from qanat.connection.cluster import Cluster
from qanat.connection.faults import check
from qanat.model.error_codes import ErrorCode
from qanat.wire.kafka.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from qanat.wire.kafka.registry import ApiKey

_BROKERS_DEFAULT = -1
Settings = Annotated[list[str] | None, Parameter(name=["--config", "-c"], negative="")]


def create(
    topics: Annotated[list[str], Parameter(name="topic", negative="")],
    /,
    *,
    partitions: Annotated[int | None, Parameter(name=["--partitions", "-p"])] = None,
    replicas: Annotated[int | None, Parameter(name=["--replicas", "-r", "--replication-factor"])] = None,
    settings: Settings = None,
    if_not_exists: Annotated[bool, Parameter(negative="")] = False,
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    output: Output = "table",
    target: Target = HERE,
) -> None:
    """Create topics.

        qanat topic create orders -p 12 -c retention.ms=86400000
        qanat topic create audit --if-not-exists -c cleanup.policy=compact -o json

    Parameters
    ----------
    topics:
        Names.
    partitions:
        How many each has; the broker's default otherwise.
    replicas:
        Replicas of each partition; the broker's default otherwise.
    settings:
        A setting of the topic, as often as needed: -c name=value.
    if_not_exists:
        Accept topics that exist already.
    dry_run:
        Let the broker check it, and create nothing.
    output:
        A sentence each for people, the others for programs.
    """
    configs = [CreatableTopicConfig(name, value) for name, value in assignments(settings or []).items()]
    count = _BROKERS_DEFAULT if partitions is None else partitions
    copies = _BROKERS_DEFAULT if replicas is None else replicas
    wanted = [CreatableTopic(name, count, copies, configs=configs) for name in topics]

    async def work(cluster: Cluster) -> CreateTopicsResponse:
        deadline = cluster.deadline()
        request = CreateTopicsRequest(wanted, timeout_ms=deadline.left_ms, validate_only=dry_run)
        response: CreateTopicsResponse = await cluster.call_controller(ApiKey.CREATE_TOPICS, request, deadline)
        return response

    rows: list[Row] = []
    try:
        for result in run(target, work).topics:
            is_there = if_not_exists and result.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
            if not is_there:
                check(f"cannot create topic {result.name}", result.error_code, result.error_message)
            done = "exists" if is_there else "would create" if dry_run else "created"
            rows.append({"topic": result.name, "partitions": _or_none(result.num_partitions), "done": done})
    finally:
        # Of several topics, the broker may create some before it refuses one.
        if rows:
            print_done(rows, DONE_COLUMNS, output, done_sentence)


def _or_none(number: int) -> int | None:
    return number if number > 0 else None
