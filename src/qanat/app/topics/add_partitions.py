"""`qanat topic add-partitions`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from qanat.app.client.target import HERE, Target, run
from qanat.app.terminal.listing import Output, Row, print_done
from qanat.connection.cluster import Cluster
from qanat.connection.faults import check
from qanat.wire.kafka.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from qanat.wire.kafka.registry import ApiKey

_DONE_COLUMNS = ("topic", "partitions", "done")


def add_partitions(
    topic: str,
    /,
    *,
    to: int,
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    output: Output = "table",
    target: Target = HERE,
) -> None:
    """Give a topic more partitions. Keys may move to other partitions; it cannot be undone.

        qanat topic add-partitions orders --to 12

    Parameters
    ----------
    topic:
        Its name.
    to:
        Total number of partitions.
    dry_run:
        Let the broker check it, and change nothing.
    output:
        A sentence each for people, the others for programs.
    """

    async def work(cluster: Cluster) -> None:
        deadline = cluster.deadline()
        await cluster.topic(topic, deadline, may_lack_leaders=True)  # An unknown topic gets its own error.
        wanted = [CreatePartitionsTopic(topic, to, None)]
        request = CreatePartitionsRequest(wanted, timeout_ms=deadline.left_ms, validate_only=dry_run)
        response: CreatePartitionsResponse = await cluster.call_controller(ApiKey.CREATE_PARTITIONS, request, deadline)
        for result in response.results:
            check(f"cannot add partitions to {topic}", result.error_code, result.error_message)

    run(target, work)
    row: Row = {"topic": topic, "partitions": to, "done": "would have" if dry_run else "has"}
    print_done([row], _DONE_COLUMNS, output, lambda row: f"{row['topic']} {row['done']} {row['partitions']} partitions")
