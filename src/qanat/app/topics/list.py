"""`qanat topic list`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from qanat.app.client.target import HERE, Target
from qanat.app.terminal.listing import Output, Row, print_rows
from qanat.app.terminal.watch import ONCE, Watch, show
from qanat.app.topics.topic_lookup import find_topics
from qanat.connection.cluster import Cluster
from qanat.model.ids import TopicId
from qanat.wire.kafka.messages.metadata import MetadataResponseTopic

_LIST_COLUMNS = ("topic", "partitions", "replicas", "internal", "topic_id")


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
        Only topics whose name matches this regular expression.
    internal:
        Include the cluster's internal topics.
    output:
        `table` for people, the others for programs.
    """

    async def work(cluster: Cluster) -> list[Row]:
        topics = await find_topics(cluster, [], regex)
        return [_list_row(topic) for topic in topics if internal or not topic.is_internal]

    show(target, watch, work, lambda rows: print_rows(rows, _LIST_COLUMNS, output, spare=("topic_id", "internal")))


def _list_row(topic: MetadataResponseTopic) -> Row:
    return {
        "topic": topic.name,
        "partitions": len(topic.partitions),
        "replicas": max((len(partition.replica_nodes) for partition in topic.partitions), default=0),
        "internal": topic.is_internal,
        "topic_id": str(TopicId.of(topic.topic_id)),
    }
