"""`qanat transaction list|describe|abort`: who has a transaction open, and how to end one that hangs.

An open transaction holds back everybody who reads with `read_committed`. One whose producer is gone ends with its
timeout; `abort` need not wait for that. A transaction that no coordinator knows any more (a hanging one, KIP-664)
is ended in its partition: `abort --partition`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from cyclopts import Parameter

from qanat.app.session import HERE, UNDECIDED, Consent, Target, WrongArgumentError, run
from qanat.app.terminal.listing import Output, Row, print_done, print_rows
from qanat.connection.cluster import Cluster, Kind
from qanat.connection.deadline import Deadline
from qanat.connection.faults import RefusedError, check, refused
from qanat.connection.link import Link
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import TopicPartition
from qanat.model.spelling import did_you_mean
from qanat.wire.kafka.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ProducerState,
    TopicRequest,
)
from qanat.wire.kafka.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from qanat.wire.kafka.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from qanat.wire.kafka.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from qanat.wire.kafka.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from qanat.wire.kafka.registry import ApiKey

_LIST_COLUMNS = ("transaction", "state", "producer", "coordinator")
_COLUMNS = ("transaction", "state", "producer", "epoch", "timeout_ms", "started", "partitions")
_ABORT_COLUMNS = ("transaction", "partition", "producer", "epoch", "done")
_PRODUCER_COLUMNS = ("partition", "producer", "epoch", "last_sequence", "last_written", "open_since_offset")

Transactions = Annotated[list[str], Parameter(name="transaction", negative="")]


def list_transactions(
    *,
    state: Annotated[list[str] | None, Parameter(name=["--state", "-s"], negative="")] = None,
    longer_than: Annotated[float | None, Parameter(name="--longer-than")] = None,
    output: Output = "table",
    target: Target = HERE,
) -> None:
    """List transactional ids.

        qanat transaction list --state Ongoing --longer-than 60

    Parameters
    ----------
    state:
        Only ids in this state: Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort.
    longer_than:
        Only transactions that have been open for more than so many seconds.
    output:
        `table` for people, the others for programs.
    """

    print_rows(run(target, lambda cluster: _listed(cluster, state or [], longer_than)), _LIST_COLUMNS, output)


async def _listed(cluster: Cluster, states: list[str], longer_than: float | None) -> list[Row]:
    """The transactional ids of every broker, by name."""
    deadline = cluster.deadline()
    rows: list[Row] = []
    for broker in (await cluster.metadata([], deadline)).brokers:
        link = await cluster.node_link(broker.node_id, deadline)
        request = ListTransactionsRequest(states, [], -1 if longer_than is None else round(longer_than * 1000))
        response: ListTransactionsResponse = await link.call(ApiKey.LIST_TRANSACTIONS, request, deadline)
        check(f"transactions of broker {broker.node_id}", response.error_code)
        if response.unknown_state_filters:
            raise WrongArgumentError(f"there is no state {response.unknown_state_filters[0]}")
        rows += [
            {
                "transaction": one.transactional_id,
                "state": one.transaction_state,
                "producer": one.producer_id,
                "coordinator": broker.node_id,
            }
            for one in response.transaction_states
        ]
    return sorted(rows, key=lambda row: str(row["transaction"]))


def describe(
    transactions: Transactions = [],  # noqa: B006 - Never changed: cyclopts wants the type.
    /,
    *,
    partition: Annotated[list[str] | None, Parameter(name=["--partition", "-p"], negative="")] = None,
    output: Output = "table",
    target: Target = HERE,
) -> None:
    """Show what transactional ids are doing, or which producers have something open in partitions.

        qanat transaction describe my-copier
        qanat transaction describe --partition orders:0

    Parameters
    ----------
    transactions:
        Transactional ids.
    partition:
        Instead: topic:partition, to show every producer that the partition remembers.
    output:
        `table` for people, the others for programs.
    """
    if bool(transactions) == bool(partition):
        raise WrongArgumentError("name transactional ids, or partitions with --partition topic:partition")

    async def work(cluster: Cluster) -> list[Row]:
        deadline = cluster.deadline()
        if not partition:
            return [_row(await _described(cluster, name, deadline)) for name in transactions]
        return [row for text in partition for row in await _producers(cluster, _parsed(text), deadline)]

    print_rows(run(target, work), _PRODUCER_COLUMNS if partition else _COLUMNS, output)


def abort(
    transaction: str | None = None,
    /,
    *,
    partition: Annotated[str | None, Parameter(name=["--partition", "-p"])] = None,
    start_offset: int | None = None,
    consent: Consent = UNDECIDED,
    output: Output = "table",
    target: Target = HERE,
) -> int:
    """Abort an open transaction and fence its producer. Without --yes, only say which.

        qanat transaction abort my-copier --yes
        qanat transaction abort --partition orders:0 --start-offset 17 --yes

    Parameters
    ----------
    transaction:
        Transactional id.
    partition:
        Instead: topic:partition of a transaction that no coordinator knows any more.
    start_offset:
        Where that transaction begins in the partition; `describe --partition` shows it.
    output:
        A sentence for people, the others for programs.
    """
    if (transaction is None) == (partition is None) or (partition is None) != (start_offset is None):
        raise WrongArgumentError("name a transactional id, or --partition topic:partition with --start-offset")

    async def work(cluster: Cluster) -> Row:
        if transaction is not None:
            return await _abort_known(cluster, transaction, is_meant=consent.is_given)
        assert partition is not None
        return await _abort_hanging(cluster, _parsed(partition), start_offset or 0, is_meant=consent.is_given)

    row = run(target, work) | {"done": "aborted" if consent.is_given else "would abort"}
    print_done([row], _ABORT_COLUMNS, output, _sentence)
    return 0 if consent.is_given else consent.withheld("aborted")


def _sentence(row: Row) -> str:
    if row["transaction"] is None:
        return f"{row['done']} the transaction of producer {row['producer']} in {row['partition']}"
    about = f" (producer {row['producer']}, epoch {row['epoch']})" if row["done"] == "would abort" else ""
    return f"{row['done']} {row['transaction']}{about}"


async def _abort_known(cluster: Cluster, transaction: str, *, is_meant: bool) -> Row:
    """A producer that begins anew aborts what its predecessor left: so does whoever takes its name."""
    deadline = cluster.deadline()
    found = await _described(cluster, transaction, deadline)
    if found.transaction_state != "Ongoing":
        raise refused(f"{transaction} has no open transaction ({found.transaction_state})", ErrorCode.INVALID_TXN_STATE)

    async def attempt() -> None:
        link = await cluster.coordinator_link(transaction, deadline, Kind.TRANSACTION)
        request = InitProducerIdRequest(transaction, found.transaction_timeout_ms)
        response: InitProducerIdResponse = await link.call(ApiKey.INIT_PRODUCER_ID, request, deadline)
        check(f"cannot abort {transaction}", response.error_code)

    if is_meant:
        await cluster.persist(attempt, deadline)
    about = {"producer": found.producer_id, "epoch": found.producer_epoch}
    return {"transaction": transaction, "partition": None, **about}


async def _abort_hanging(cluster: Cluster, at: TopicPartition, start_offset: int, *, is_meant: bool) -> Row:
    deadline = cluster.deadline()
    producers = await _describe_producers(cluster, at, deadline)
    hanging = [one for one in producers if one.current_txn_start_offset == start_offset]
    if not hanging:
        raise refused(f"no open transaction begins at offset {start_offset} of {at}", ErrorCode.INVALID_TXN_STATE)
    (producer,) = hanging
    row: Row = {"transaction": None, "partition": f"{at.topic}:{at.partition}"}
    row |= {"producer": producer.producer_id, "epoch": producer.producer_epoch}
    if not is_meant:
        return row
    marker = WritableTxnMarker(
        producer.producer_id,
        producer.producer_epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(at.topic, [at.partition])],
        coordinator_epoch=max(producer.coordinator_epoch, 0),
    )
    link = await _leader_link(cluster, at, deadline)
    response: WriteTxnMarkersResponse = await link.call(
        ApiKey.WRITE_TXN_MARKERS, WriteTxnMarkersRequest([marker]), deadline
    )
    check(f"cannot abort in {at}", response.markers[0].topics[0].partitions[0].error_code)
    return row


async def _described(cluster: Cluster, transaction: str, deadline: Deadline) -> TransactionState:
    async def attempt() -> TransactionState:
        link = await cluster.coordinator_link(transaction, deadline, Kind.TRANSACTION)
        request = DescribeTransactionsRequest([transaction])
        response: DescribeTransactionsResponse = await link.call(ApiKey.DESCRIBE_TRANSACTIONS, request, deadline)
        (found,) = response.transaction_states
        if found.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            names = [str(row["transaction"]) for row in await _listed(cluster, [], None)]
            near = did_you_mean(transaction, names, "qanat transaction list shows those that are there")
            raise RefusedError(found.error_code, f"there is no transactional id {transaction}{near}")
        check(f"transaction {transaction}", found.error_code)
        return found

    return await cluster.persist(attempt, deadline)


def _row(found: TransactionState) -> Row:
    partitions = [f"{topic.topic}:{number}" for topic in found.topics for number in topic.partitions]
    return {
        "transaction": found.transactional_id,
        "state": found.transaction_state,
        "producer": found.producer_id,
        "epoch": found.producer_epoch,
        "timeout_ms": found.transaction_timeout_ms,
        "started": _moment(found.transaction_start_time_ms),
        "partitions": " ".join(partitions),
    }


async def _producers(cluster: Cluster, at: TopicPartition, deadline: Deadline) -> list[Row]:
    return [
        {
            "partition": f"{at.topic}:{at.partition}",
            "producer": one.producer_id,
            "epoch": one.producer_epoch,
            "last_sequence": one.last_sequence,
            "last_written": _moment(one.last_timestamp),
            "open_since_offset": one.current_txn_start_offset if one.current_txn_start_offset >= 0 else None,
        }
        for one in await _describe_producers(cluster, at, deadline)
    ]


async def _describe_producers(cluster: Cluster, at: TopicPartition, deadline: Deadline) -> list[ProducerState]:
    link = await _leader_link(cluster, at, deadline)
    request = DescribeProducersRequest([TopicRequest(at.topic, [at.partition])])
    response: DescribeProducersResponse = await link.call(ApiKey.DESCRIBE_PRODUCERS, request, deadline)
    (row,) = response.topics[0].partitions
    check(f"producers of {at}", row.error_code, row.error_message)
    return row.active_producers


async def _leader_link(cluster: Cluster, at: TopicPartition, deadline: Deadline) -> Link:
    view = await cluster.topic(at.topic, deadline)
    if at.partition not in view.leaders:
        raise refused(f"topic {at.topic} has no partition {at.partition}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return await cluster.node_link(view.leaders[at.partition], deadline)


def _moment(timestamp_ms: int) -> str | None:
    """A wall-clock time as people and programs read it."""
    if timestamp_ms < 0:
        return None
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")


def _parsed(text: str) -> TopicPartition:
    topic, _, number = text.rpartition(":")
    if not topic or not number.isdecimal():
        raise WrongArgumentError(f"{text!r} should read topic:partition")
    return TopicPartition(topic, int(number))
