"""`qanat transaction abort`: end an open transaction.

An open transaction blocks every consumer that reads with `read_committed`. A transaction whose producer is gone ends
with its timeout; `abort` does not wait for that. `abort --partition` ends a transaction that no coordinator knows any
more (a hanging one, KIP-664) in its partition.
"""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from qanat.app.client.arguments import WrongArgumentError
from qanat.app.client.consent import UNDECIDED, Consent
from qanat.app.client.target import HERE, Target, run
from qanat.app.terminal.listing import Output, Row, print_done
from qanat.app.transactions.producers import describe_producers, leader_link, parse_partition
from qanat.app.transactions.transaction_view import describe_transaction
from qanat.connection.cluster import Cluster, Kind
from qanat.connection.faults import check, refused
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import TopicPartition
from qanat.wire.kafka.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from qanat.wire.kafka.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from qanat.wire.kafka.registry import ApiKey

_ABORT_COLUMNS = ("transaction", "partition", "producer", "epoch", "done")


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
    """Abort an open transaction and fence its producer. Without --yes, only show it.

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
            return await _abort_known(cluster, transaction, is_confirmed=consent.is_confirmed)
        assert partition is not None
        return await _abort_hanging(
            cluster, parse_partition(partition), start_offset or 0, is_confirmed=consent.is_confirmed
        )

    row = run(target, work) | {"done": "aborted" if consent.is_confirmed else "would abort"}
    print_done([row], _ABORT_COLUMNS, output, _sentence)
    return 0 if consent.is_confirmed else consent.report_withheld("aborted")


def _sentence(row: Row) -> str:
    if row["transaction"] is None:
        return f"{row['done']} the transaction of producer {row['producer']} in {row['partition']}"
    about = f" (producer {row['producer']}, epoch {row['epoch']})" if row["done"] == "would abort" else ""
    return f"{row['done']} {row['transaction']}{about}"


async def _abort_known(cluster: Cluster, transaction: str, *, is_confirmed: bool) -> Row:
    """Abort by InitProducerId: a new producer of a transactional id aborts what its predecessor left open."""
    deadline = cluster.deadline()
    found = await describe_transaction(cluster, transaction, deadline)
    if found.transaction_state != "Ongoing":
        raise refused(f"{transaction} has no open transaction ({found.transaction_state})", ErrorCode.INVALID_TXN_STATE)

    async def attempt() -> None:
        link = await cluster.coordinator_link(transaction, deadline, Kind.TRANSACTION)
        request = InitProducerIdRequest(transaction, found.transaction_timeout_ms)
        response: InitProducerIdResponse = await link.call(ApiKey.INIT_PRODUCER_ID, request, deadline)
        check(f"cannot abort {transaction}", response.error_code)

    if is_confirmed:
        await cluster.persist(attempt, deadline)
    about = {"producer": found.producer_id, "epoch": found.producer_epoch}
    return {"transaction": transaction, "partition": None, **about}


async def _abort_hanging(cluster: Cluster, at: TopicPartition, start_offset: int, *, is_confirmed: bool) -> Row:
    deadline = cluster.deadline()
    producers = await describe_producers(cluster, at, deadline)
    hanging = [one for one in producers if one.current_txn_start_offset == start_offset]
    if not hanging:
        raise refused(f"no open transaction begins at offset {start_offset} of {at}", ErrorCode.INVALID_TXN_STATE)
    (producer,) = hanging
    row: Row = {"transaction": None, "partition": f"{at.topic}:{at.partition}"}
    row |= {"producer": producer.producer_id, "epoch": producer.producer_epoch}
    if not is_confirmed:
        return row
    marker = WritableTxnMarker(
        producer.producer_id,
        producer.producer_epoch,
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(at.topic, [at.partition])],
        coordinator_epoch=max(producer.coordinator_epoch, 0),
    )
    link = await leader_link(cluster, at, deadline)
    response: WriteTxnMarkersResponse = await link.call(
        ApiKey.WRITE_TXN_MARKERS, WriteTxnMarkersRequest([marker]), deadline
    )
    check(f"cannot abort in {at}", response.markers[0].topics[0].partitions[0].error_code)
    return row
