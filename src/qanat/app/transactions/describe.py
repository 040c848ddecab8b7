"""`qanat transaction describe`: transactions, or the producers of a partition."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from cyclopts import Parameter

from qanat.app.client.arguments import WrongArgumentError
from qanat.app.client.target import HERE, Target, run
from qanat.app.terminal.listing import Output, Row, print_rows
from qanat.app.transactions.producers import describe_producers, parse_partition
from qanat.app.transactions.transaction_view import describe_transaction
from qanat.connection.cluster import Cluster
from qanat.connection.deadline import Deadline
from qanat.model.ids import TopicPartition
from qanat.wire.kafka.messages.describe_transactions import (
    TransactionState,
)

_COLUMNS = ("transaction", "state", "producer", "epoch", "timeout_ms", "started", "partitions")
_PRODUCER_COLUMNS = ("partition", "producer", "epoch", "last_sequence", "last_written", "open_since_offset")
Transactions = Annotated[list[str], Parameter(name="transaction", negative="")]


def describe(
    transactions: Transactions = [],  # noqa: B006 - Never changed: cyclopts wants the type.
    /,
    *,
    partition: Annotated[list[str] | None, Parameter(name=["--partition", "-p"], negative="")] = None,
    output: Output = "table",
    target: Target = HERE,
) -> None:
    """Show the transactions of transactional ids, or the producers of partitions.

        qanat transaction describe my-copier
        qanat transaction describe --partition orders:0

    Parameters
    ----------
    transactions:
        Transactional ids.
    partition:
        Instead: topic:partition, to show every producer known to the partition.
    output:
        `table` for people, the others for programs.
    """
    if bool(transactions) == bool(partition):
        raise WrongArgumentError("name transactional ids, or partitions with --partition topic:partition")

    async def work(cluster: Cluster) -> list[Row]:
        deadline = cluster.deadline()
        if not partition:
            return [_row(await describe_transaction(cluster, name, deadline)) for name in transactions]
        return [row for text in partition for row in await _producers(cluster, parse_partition(text), deadline)]

    print_rows(run(target, work), _PRODUCER_COLUMNS if partition else _COLUMNS, output)


def _row(found: TransactionState) -> Row:
    partitions = [f"{topic.topic}:{number}" for topic in found.topics for number in topic.partitions]
    return {
        "transaction": found.transactional_id,
        "state": found.transaction_state,
        "producer": found.producer_id,
        "epoch": found.producer_epoch,
        "timeout_ms": found.transaction_timeout_ms,
        "started": _iso_time(found.transaction_start_time_ms),
        "partitions": " ".join(partitions),
    }


async def _producers(cluster: Cluster, at: TopicPartition, deadline: Deadline) -> list[Row]:
    return [
        {
            "partition": f"{at.topic}:{at.partition}",
            "producer": one.producer_id,
            "epoch": one.producer_epoch,
            "last_sequence": one.last_sequence,
            "last_written": _iso_time(one.last_timestamp),
            "open_since_offset": one.current_txn_start_offset if one.current_txn_start_offset >= 0 else None,
        }
        for one in await describe_producers(cluster, at, deadline)
    ]


def _iso_time(timestamp_ms: int) -> str | None:
    """A timestamp in ISO 8601; None for none."""
    if timestamp_ms < 0:
        return None
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")
