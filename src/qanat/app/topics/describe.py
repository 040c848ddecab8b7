"""`qanat topic describe`: leader, replicas, first offset and end of every partition."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from qanat.app.client.arguments import WrongArgumentError
from qanat.app.client.target import HERE, Target
from qanat.app.terminal.listing import Output, Row, counted, print_rows
from qanat.app.terminal.watch import ONCE, Watch, show
from qanat.app.topics.topic_lookup import find_topics
from qanat.connection.cluster import Cluster, TopicLeaders
from qanat.connection.deadline import Deadline
from qanat.connection.faults import OutOfTimeError, RefusedError
from qanat.connection.offsets import list_bounds
from qanat.wire.kafka.messages.metadata import MetadataResponseTopic

_PARTITION_COLUMNS = ("topic", "partition", "leader", "replicas", "in_sync", "first_offset", "end_offset", "records")
_READY_S = 1.0


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
        Topics whose name matches this regular expression.
    output:
        `table` for people, the others for programs.
    """
    if not topics and regex is None:
        raise WrongArgumentError("name a topic, or several with --regex")

    async def work(cluster: Cluster) -> list[Row]:
        found = await find_topics(cluster, topics or [], regex)
        return [row for topic in found for row in await _partition_rows(cluster, topic)]

    show(target, watch, work, lambda rows: _print_partitions(rows, output))


def _print_partitions(rows: list[Row], output: str) -> None:
    """A table per topic: a column with its name would take the room of the figures."""
    if output != "table":
        print_rows(rows, _PARTITION_COLUMNS, output)
        return
    for index, topic in enumerate(dict.fromkeys(row["topic"] for row in rows)):
        its_own = [row for row in rows if row["topic"] == topic]
        records = sum(int(row["records"] or 0) for row in its_own)
        print(f"{chr(10) if index else ''}{topic}: {counted(len(its_own), 'partition')}, {counted(records, 'record')}")
        print_rows(its_own, _PARTITION_COLUMNS[1:], output, spare=("replicas", "in_sync"))


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
    """A topic with its leaders; after a short wait, without leaders of partitions that have none."""
    try:
        return await cluster.topic(name, Deadline.after(min(_READY_S, deadline.left_seconds)))
    except (RefusedError, OutOfTimeError):
        return await cluster.topic(name, deadline, may_lack_leaders=True)
