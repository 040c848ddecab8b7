"""`qanat topic alter|add-partitions|trim`: change a topic that is there."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from qanat.app.configs import ALTER_COLUMNS, TOPIC, alter_configs, alter_sentence
from qanat.app.records.positions import offsets_at, parse_position
from qanat.app.session import HERE, UNDECIDED, Consent, Target, WrongArgumentError, assignments, run
from qanat.app.terminal.listing import Output, Row, print_done, print_rows
from qanat.connection.cluster import Cluster
from qanat.connection.faults import check
from qanat.connection.offsets import by_leader, list_bounds
from qanat.wire.kafka.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from qanat.wire.kafka.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from qanat.wire.kafka.registry import ApiKey

_DONE_COLUMNS = ("topic", "partitions", "done")
_TRIM_COLUMNS = ("topic", "partition", "first_offset", "new_first_offset", "removed_offsets")


def alter(
    topic: str,
    settings: Annotated[list[str] | None, Parameter(negative="")] = None,
    /,
    *,
    delete: Annotated[list[str] | None, Parameter(name=["--delete", "-d"], negative="")] = None,
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    output: Output = "table",
    target: Target = HERE,
) -> None:
    """Change settings of a topic; the change takes effect at once.

        qanat topic alter orders retention.ms=3600000 --delete segment.bytes

    Parameters
    ----------
    topic:
        Its name.
    settings:
        name=value, as many as needed.
    delete:
        A setting that is to have its default again.
    dry_run:
        Let the broker check it, and change nothing.
    output:
        A sentence each for people, the others for programs.
    """
    changes = assignments(settings or [])
    rows = run(target, lambda cluster: alter_configs(cluster, TOPIC, topic, changes, delete or [], is_dry_run=dry_run))
    print_done(rows, ALTER_COLUMNS, output, alter_sentence)


def add_partitions(
    topic: str,
    /,
    *,
    to: int,
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    output: Output = "table",
    target: Target = HERE,
) -> None:
    """Give a topic more partitions. Keys may have another home afterwards; there is no way back.

        qanat topic add-partitions orders --to 12

    Parameters
    ----------
    topic:
        Its name.
    to:
        How many it is to have in all.
    dry_run:
        Let the broker check it, and change nothing.
    output:
        A sentence each for people, the others for programs.
    """

    async def work(cluster: Cluster) -> None:
        deadline = cluster.deadline()
        await cluster.topic(topic, deadline, may_lack_leaders=True)  # A name that is not there gets its own complaint.
        wanted = [CreatePartitionsTopic(topic, to, None)]
        request = CreatePartitionsRequest(wanted, timeout_ms=deadline.left_ms, validate_only=dry_run)
        response: CreatePartitionsResponse = await cluster.call_controller(ApiKey.CREATE_PARTITIONS, request, deadline)
        for result in response.results:
            check(f"cannot add partitions to {topic}", result.error_code, result.error_message)

    run(target, work)
    row: Row = {"topic": topic, "partitions": to, "done": "would have" if dry_run else "has"}
    print_done([row], _DONE_COLUMNS, output, lambda row: f"{row['topic']} {row['done']} {row['partitions']} partitions")


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
    """Remove the oldest records of a topic. Without --yes, only say how many.

        qanat topic trim orders --before @7d --yes

    Parameters
    ----------
    topic:
        Its name.
    before:
        Records before this place go: end, an offset, +N, -N, @2h or @2026-01-01T00:00.
    partitions:
        Only these partitions.
    output:
        `table` for people, the others for programs.
    """
    position = parse_position(before)
    is_meant = consent.is_given

    async def work(cluster: Cluster) -> list[Row]:
        deadline = cluster.deadline()
        view = await cluster.topic(topic, deadline)
        bounds = await list_bounds(cluster, view, deadline)
        if partitions:
            bounds = {partition: bounds[partition] for partition in _existing(partitions, bounds, topic)}
        ends = await offsets_at(cluster, view, position, bounds, deadline)
        if is_meant:
            await _remove(cluster, topic, ends)
        return [_trim_row(topic, partition, bounds[partition][0], ends[partition]) for partition in bounds]

    print_rows(run(target, work), _TRIM_COLUMNS, output)
    return 0 if is_meant else consent.withheld("removed")


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
