"""`qanat topic create|list|describe|delete`, on any cluster that speaks Kafka's protocol; changes: `topic_changes`."""

from __future__ import annotations

import re
from typing import Annotated

from cyclopts import Parameter

from qanat.app.session import HERE, UNDECIDED, Consent, Target, WrongArgumentError, assignments, run
from qanat.app.terminal.listing import Output, Row, counted, print_done, print_rows
from qanat.app.terminal.watch import ONCE, Watch, show
from qanat.connection.cluster import Cluster, TopicLeaders
from qanat.connection.deadline import Deadline
from qanat.connection.faults import OutOfTimeError, RefusedError, check, refused
from qanat.connection.offsets import list_bounds
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import TopicId
from qanat.wire.kafka.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from qanat.wire.kafka.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from qanat.wire.kafka.messages.metadata import MetadataResponseTopic
from qanat.wire.kafka.registry import ApiKey

_LIST_COLUMNS = ("topic", "partitions", "replicas", "internal", "topic_id")
_PARTITION_COLUMNS = ("topic", "partition", "leader", "replicas", "in_sync", "first_offset", "end_offset", "records")
_DONE_COLUMNS = ("topic", "partitions", "done")
_BROKERS_DEFAULT = -1
_READY_S = 1.0

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
        Copies of each partition; the broker's default otherwise.
    settings:
        A setting of the topic, as often as needed: -c name=value.
    if_not_exists:
        A topic that is there already is fine.
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
        # Of several topics, some may have been created before one was refused.
        if rows:
            print_done(rows, _DONE_COLUMNS, output, _sentence)


def _or_none(number: int) -> int | None:
    return number if number > 0 else None


def _sentence(row: Row) -> str:
    if row["done"] == "exists":
        return f"{row['topic']} exists"
    size = f" with {row['partitions']} partitions" if row["partitions"] is not None else ""
    return f"{row['done']} {row['topic']}{size}"


def list_topics(
    *,
    regex: Annotated[str | None, Parameter(name=["--regex", "-r"])] = None,
    internal: Annotated[bool, Parameter(negative="")] = False,
    output: Output = "table",
    watch: Watch = ONCE,
    target: Target = HERE,
) -> None:
    """List topics.

        qanat topic list --regex '^orders' -o names

    Parameters
    ----------
    regex:
        Only topics whose name this expression finds.
    internal:
        Topics that the cluster keeps for itself as well.
    output:
        `table` for people, the others for programs.
    """

    async def work(cluster: Cluster) -> list[Row]:
        topics = await _topics(cluster, [], regex)
        return [_list_row(topic) for topic in topics if internal or not topic.is_internal]

    show(target, watch, work, lambda rows: print_rows(rows, _LIST_COLUMNS, output, spare=("topic_id", "internal")))


def describe(
    topics: Annotated[list[str] | None, Parameter(name="topic", negative="")] = None,
    /,
    *,
    regex: Annotated[str | None, Parameter(name=["--regex", "-r"])] = None,
    output: Output = "table",
    watch: Watch = ONCE,
    target: Target = HERE,
) -> None:
    """Show the partitions of topics: leader, replicas, first offset and end. Settings: `qanat config get topic NAME`.

        qanat topic describe orders
        qanat topic describe --regex '^orders' -o json

    Parameters
    ----------
    topics:
        Names; or use --regex.
    regex:
        Topics whose name this expression finds.
    output:
        `table` for people, the others for programs.
    """
    if not topics and regex is None:
        raise WrongArgumentError("name a topic, or several with --regex")

    async def work(cluster: Cluster) -> list[Row]:
        found = await _topics(cluster, topics or [], regex)
        return [row for topic in found for row in await _partition_rows(cluster, topic)]

    show(target, watch, work, lambda rows: _print_partitions(rows, output))


def _print_partitions(rows: list[Row], output: str) -> None:
    """A table per topic, whose name would take the room that the figures need."""
    if output != "table":
        print_rows(rows, _PARTITION_COLUMNS, output)
        return
    for index, topic in enumerate(dict.fromkeys(row["topic"] for row in rows)):
        its_own = [row for row in rows if row["topic"] == topic]
        records = sum(int(row["records"] or 0) for row in its_own)
        print(f"{chr(10) if index else ''}{topic}: {counted(len(its_own), 'partition')}, {counted(records, 'record')}")
        print_rows(its_own, _PARTITION_COLUMNS[1:], output, spare=("replicas", "in_sync"))


def delete(
    topics: Annotated[list[str], Parameter(name="topic", negative="")],
    /,
    *,
    consent: Consent = UNDECIDED,
    output: Output = "table",
    target: Target = HERE,
) -> int:
    """Delete topics with everything in them. Without --yes, only say which.

        qanat topic delete orders-test --yes

    Parameters
    ----------
    topics:
        Names.
    output:
        A sentence each for people, the others for programs.
    """
    rows: list[Row] = []

    async def work(cluster: Cluster) -> None:
        deadline = cluster.deadline()
        views = [await cluster.topic(topic, deadline, may_lack_leaders=True) for topic in topics]
        sizes = {view.name: len(view.leaders) for view in views}
        if not consent.is_given:
            rows.extend({"topic": topic, "partitions": size, "done": "would delete"} for topic, size in sizes.items())
            return
        states = [DeleteTopicState(topic) for topic in topics]
        request = DeleteTopicsRequest(list(topics), states, timeout_ms=deadline.left_ms)
        response: DeleteTopicsResponse = await cluster.call_controller(ApiKey.DELETE_TOPICS, request, deadline)
        for result in response.responses:
            check(f"cannot delete topic {result.name}", result.error_code, result.error_message)
            rows.append({"topic": result.name, "partitions": None, "done": "deleted"})

    try:
        run(target, work)
    finally:
        if rows:
            print_done(rows, _DONE_COLUMNS, output, _sentence)
    return 0 if consent.is_given else consent.withheld("deleted")


async def _topics(cluster: Cluster, names: list[str], regex: str | None) -> list[MetadataResponseTopic]:
    """These topics, or all that an expression finds, by name."""
    if names and regex is None:
        deadline = cluster.deadline()
        for name in names:
            # A name that is not there gets its own complaint.
            await cluster.topic(name, deadline, may_lack_leaders=True)
    try:
        expression = re.compile(regex or "")
    except re.error as fault:
        raise WrongArgumentError(f"--regex {regex}: {fault}") from None
    response = await cluster.metadata(names or None, cluster.deadline())
    for topic in response.topics:
        if topic.error_code and topic.error_code != ErrorCode.LEADER_NOT_AVAILABLE:
            raise refused(f"topic {topic.name}", topic.error_code)
    return sorted((one for one in response.topics if expression.search(one.name or "")), key=lambda one: one.name or "")


def _list_row(topic: MetadataResponseTopic) -> Row:
    return {
        "topic": topic.name,
        "partitions": len(topic.partitions),
        "replicas": max((len(partition.replica_nodes) for partition in topic.partitions), default=0),
        "internal": topic.is_internal,
        "topic_id": str(TopicId.of(topic.topic_id)),
    }


async def _partition_rows(cluster: Cluster, topic: MetadataResponseTopic) -> list[Row]:
    deadline = cluster.deadline()
    view = await _soon_ready(cluster, topic.name or "", deadline)
    led = {number: leader for number, leader in view.leaders.items() if leader >= 0}
    bounds = await list_bounds(cluster, TopicLeaders(view.name, led), deadline)
    rows: list[Row] = []
    for partition in sorted(topic.partitions, key=lambda one: one.partition_index):
        first, end = bounds.get(partition.partition_index, (None, None))
        rows.append(
            {
                "topic": topic.name,
                "partition": partition.partition_index,
                "leader": partition.leader_id if partition.leader_id >= 0 else None,
                "replicas": ",".join(map(str, partition.replica_nodes)),
                "in_sync": ",".join(map(str, partition.isr_nodes)),
                "first_offset": first,
                "end_offset": end,
                "records": None if first is None or end is None else end - first,
            }
        )
    return rows


async def _soon_ready(cluster: Cluster, name: str, deadline: Deadline) -> TopicLeaders:
    """A topic; where some partitions are still not led after a moment (all their replicas are away), without those."""
    try:
        return await cluster.topic(name, Deadline.after(min(_READY_S, deadline.left_seconds)))
    except (RefusedError, OutOfTimeError):
        return await cluster.topic(name, deadline, may_lack_leaders=True)
