"""Requests about very many transactions, and about transactions of very many partitions."""

from __future__ import annotations

from collections.abc import Iterator

from bench.stalls.cases import ROWS_MAX, Case, unknown_names
from bench.stalls.crowd import SPENDER, SPENDER_ID, Crowd
from qanat.wire.kafka.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    describe_producers,
    describe_transactions,
    end_txn,
    init_producer_id,
    list_transactions,
    txn_offset_commit,
    write_txn_markers,
)
from qanat.wire.kafka.registry import ApiKey

_GROUP = "spending"
_CLASSIC_ADD, _CLASSIC_END, _CLASSIC_COMMIT = 3, 3, 3


def of_transactions(crowd: Crowd) -> Iterator[Case]:
    yield from _of_one(crowd)
    yield from _of_many()
    yield from _of_markers(crowd)


def _of_one(crowd: Crowd) -> Iterator[Case]:
    """A transaction from its beginning to its end."""
    yield Case(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        "known partitions",
        lambda rows: add_partitions_to_txn.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=SPENDER,
            v3_and_below_producer_id=SPENDER_ID,
            v3_and_below_producer_epoch=0,
            v3_and_below_topics=[
                add_partitions_to_txn.AddPartitionsToTxnTopic(name, list(numbers))
                for name, numbers in crowd.spread(rows)
            ],
        ),
        crowd.partitions,
        _CLASSIC_ADD,
    )
    yield Case(
        ApiKey.ADD_OFFSETS_TO_TXN,
        "one group",
        lambda rows: add_offsets_to_txn.AddOffsetsToTxnRequest(SPENDER, SPENDER_ID, 0, _GROUP),
        1,
        _CLASSIC_ADD,
    )
    yield Case(
        ApiKey.TXN_OFFSET_COMMIT,
        "known partitions",
        lambda rows: _committed(
            [
                txn_offset_commit.TxnOffsetCommitRequestTopic(
                    name, [txn_offset_commit.TxnOffsetCommitRequestPartition(number, 1) for number in numbers]
                )
                for name, numbers in crowd.spread(rows)
            ]
        ),
        crowd.partitions,
        _CLASSIC_COMMIT,
    )
    yield Case(
        ApiKey.DESCRIBE_TRANSACTIONS,
        "one of many partitions",
        lambda rows: describe_transactions.DescribeTransactionsRequest([SPENDER]),
        1,
    )
    yield Case(
        ApiKey.END_TXN,
        "one of many partitions",
        lambda rows: end_txn.EndTxnRequest(SPENDER, SPENDER_ID, 0, True),
        1,
        _CLASSIC_END,
    )


def _committed(topics: list[txn_offset_commit.TxnOffsetCommitRequestTopic]) -> txn_offset_commit.TxnOffsetCommitRequest:
    return txn_offset_commit.TxnOffsetCommitRequest(SPENDER, _GROUP, SPENDER_ID, 0, topics=topics)


def _of_many() -> Iterator[Case]:
    yield Case(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        "one topic, unknown partitions",
        lambda rows: add_partitions_to_txn.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=SPENDER,
            v3_and_below_producer_id=SPENDER_ID,
            v3_and_below_topics=[add_partitions_to_txn.AddPartitionsToTxnTopic("s", list(range(rows)))],
        ),
        ROWS_MAX,
        _CLASSIC_ADD,
    )
    yield Case(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        "unknown transactions",
        lambda rows: add_partitions_to_txn.AddPartitionsToTxnRequest(
            transactions=[
                add_partitions_to_txn.AddPartitionsToTxnTransaction(
                    name, 1, 0, True, [add_partitions_to_txn.AddPartitionsToTxnTopic("s", [0])]
                )
                for name in unknown_names(rows)
            ]
        ),
    )
    yield Case(
        ApiKey.TXN_OFFSET_COMMIT,
        "one topic, unknown partitions",
        lambda rows: _committed(
            [
                txn_offset_commit.TxnOffsetCommitRequestTopic(
                    "s", [txn_offset_commit.TxnOffsetCommitRequestPartition(number, 1) for number in range(rows)]
                )
            ]
        ),
        ROWS_MAX,
        _CLASSIC_COMMIT,
    )
    yield Case(
        ApiKey.DESCRIBE_TRANSACTIONS,
        "unknown transactions",
        lambda rows: describe_transactions.DescribeTransactionsRequest(unknown_names(rows)),
    )
    yield Case(
        ApiKey.LIST_TRANSACTIONS,
        "many states",
        lambda rows: list_transactions.ListTransactionsRequest(unknown_names(rows)),
    )
    yield Case(
        ApiKey.LIST_TRANSACTIONS,
        "many producers",
        lambda rows: list_transactions.ListTransactionsRequest(producer_id_filters=list(range(rows))),
    )
    yield Case(
        ApiKey.INIT_PRODUCER_ID,
        "one",
        lambda rows: init_producer_id.InitProducerIdRequest(None, 60_000),
        1,
    )


def _of_markers(crowd: Crowd) -> Iterator[Case]:
    yield Case(
        ApiKey.WRITE_TXN_MARKERS,
        "known partitions",
        lambda rows: write_txn_markers.WriteTxnMarkersRequest(
            [
                write_txn_markers.WritableTxnMarker(
                    9_000_000,
                    0,
                    False,
                    [
                        write_txn_markers.WritableTxnMarkerTopic(name, list(numbers))
                        for name, numbers in crowd.spread(rows)
                    ],
                )
            ]
        ),
        crowd.partitions,
    )
    yield Case(
        ApiKey.WRITE_TXN_MARKERS,
        "one topic, unknown partitions",
        lambda rows: write_txn_markers.WriteTxnMarkersRequest(
            [
                write_txn_markers.WritableTxnMarker(
                    9_000_000, 0, False, [write_txn_markers.WritableTxnMarkerTopic("s", list(range(rows)))]
                )
            ]
        ),
    )
    yield Case(
        ApiKey.DESCRIBE_PRODUCERS,
        "known partitions",
        lambda rows: describe_producers.DescribeProducersRequest(
            [describe_producers.TopicRequest(name, list(numbers)) for name, numbers in crowd.spread(rows)]
        ),
        crowd.partitions,
    )
    yield Case(
        ApiKey.DESCRIBE_PRODUCERS,
        "one topic, unknown partitions",
        lambda rows: describe_producers.DescribeProducersRequest(
            [describe_producers.TopicRequest("s", list(range(rows)))]
        ),
    )
