"""`qanat topic trim`: remove the oldest records of a topic (DeleteRecords)."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from qanat.app.client.arguments import WrongArgumentError
from qanat.app.client.consent import UNDECIDED, Consent
from qanat.app.client.target import HERE, Target, run
from qanat.app.records.topic_positions import offsets_at, parse_position
from qanat.app.terminal.listing import Output, Row, print_rows
from qanat.connection.cluster import Cluster
from qanat.connection.faults import check
from qanat.connection.offsets import by_leader, list_bounds
from qanat.wire.kafka.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from qanat.wire.kafka.registry import ApiKey

_TRIM_COLUMNS = ("topic", "partition", "first_offset", "new_first_offset", "removed_offsets")


def trim(
    topic: str,
    /,
    *,
    before: str,
    partitions: Annotated[list[int] | None, Parameter(name=["--partition", "-p"], negative="")] = None,
    consent: Consent = UNDECIDED,
    output: Output = "table",
    target: Target = HERE,
) -> int:
    """Remove the oldest records of a topic. Without --yes, only show how many.

        qanat topic trim orders --before @7d --yes

    Parameters
    ----------
    topic:
        Its name.
    before:
        Remove records before this place: end, an offset, +N, -N, @2h or @2026-01-01T00:00.
    partitions:
        Only these partitions.
    output:
        `table` for people, the others for programs.
    """
    position = parse_position(before)
    is_confirmed = consent.is_confirmed

    async def work(cluster: Cluster) -> list[Row]:
        deadline = cluster.deadline()
        view = await cluster.topic(topic, deadline)
        bounds = await list_bounds(cluster, view, deadline)
        if partitions:
            bounds = {partition: bounds[partition] for partition in _existing(partitions, bounds, topic)}
        ends = await offsets_at(cluster, view, position, bounds, deadline)
        if is_confirmed:
            await _remove(cluster, topic, ends)
        return [_trim_row(topic, partition, bounds[partition][0], ends[partition]) for partition in bounds]

    print_rows(run(target, work), _TRIM_COLUMNS, output)
    return 0 if is_confirmed else consent.report_withheld("removed")


async def _remove(cluster: Cluster, topic: str, ends: dict[int, int]) -> None:
    deadline = cluster.deadline()
    view = await cluster.topic(topic, deadline)
    for leader, partitions in by_leader(view, ends).items():
        wanted = [DeleteRecordsPartition(partition, ends[partition]) for partition in partitions]
        request = DeleteRecordsRequest([DeleteRecordsTopic(topic, wanted)], timeout_ms=deadline.left_ms)
        link = await cluster.node_link(leader, deadline)
        response: DeleteRecordsResponse = await link.call(ApiKey.DELETE_RECORDS, request, deadline)
        for result in response.topics[0].partitions:
            check(f"cannot trim {topic} partition {result.partition_index}", result.error_code)


def _existing(wanted: list[int], bounds: dict[int, tuple[int, int]], topic: str) -> list[int]:
    missing = [partition for partition in wanted if partition not in bounds]
    if missing:
        raise WrongArgumentError(f"topic {topic} has no partition {missing[0]}: it has 0 to {len(bounds) - 1}")
    return wanted


def _trim_row(topic: str, partition: int, first: int, end: int) -> Row:
    return {
        "topic": topic,
        "partition": partition,
        "first_offset": first,
        "new_first_offset": end,
        "removed_offsets": end - first,
    }
