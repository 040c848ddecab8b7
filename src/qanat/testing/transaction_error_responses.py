"""Error responses of the transactional APIs that have the error in every row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from qanat.api.request_context import RequestContext
from qanat.wire.kafka.messages import (
    add_partitions_to_txn,
    describe_producers,
    describe_transactions,
    txn_offset_commit,
    write_txn_markers,
)
from qanat.wire.kafka.registry import ApiKey


def _add_partitions_to_txn(request: Any, error: int, context: RequestContext) -> Any:
    row, topic_row = (
        add_partitions_to_txn.AddPartitionsToTxnPartitionResult,
        add_partitions_to_txn.AddPartitionsToTxnTopicResult,
    )

    def rows(topics: Any) -> list[Any]:
        return [topic_row(topic.name, [row(number, error) for number in topic.partitions]) for topic in topics]

    results = [
        add_partitions_to_txn.AddPartitionsToTxnResult(one.transactional_id, rows(one.topics))
        for one in request.transactions
    ]
    return add_partitions_to_txn.AddPartitionsToTxnResponse(0, rows(request.v3_and_below_topics), error, results)


def _txn_offset_commit(request: txn_offset_commit.TxnOffsetCommitRequest, error: int, context: RequestContext) -> Any:
    row = txn_offset_commit.TxnOffsetCommitResponsePartition
    topics = [
        txn_offset_commit.TxnOffsetCommitResponseTopic(
            topic.name, [row(one.partition_index, error) for one in topic.partitions]
        )
        for topic in request.topics
    ]
    return txn_offset_commit.TxnOffsetCommitResponse(topics=topics)


def _write_txn_markers(request: write_txn_markers.WriteTxnMarkersRequest, error: int, context: RequestContext) -> Any:
    row, topic_row = (
        write_txn_markers.WritableTxnMarkerPartitionResult,
        write_txn_markers.WritableTxnMarkerTopicResult,
    )
    results = [
        write_txn_markers.WritableTxnMarkerResult(
            marker.producer_id,
            [
                topic_row(topic.name, [row(number, error) for number in topic.partition_indexes])
                for topic in marker.topics
            ],
        )
        for marker in request.markers
    ]
    return write_txn_markers.WriteTxnMarkersResponse(results)


def _describe_producers(
    request: describe_producers.DescribeProducersRequest, error: int, context: RequestContext
) -> Any:
    row = describe_producers.PartitionResponse
    topics = [
        describe_producers.TopicResponse(topic.name, [row(number, error) for number in topic.partition_indexes])
        for topic in request.topics
    ]
    return describe_producers.DescribeProducersResponse(topics=topics)


def _describe_transactions(
    request: describe_transactions.DescribeTransactionsRequest, error: int, context: RequestContext
) -> Any:
    states = [describe_transactions.TransactionState(error, one) for one in request.transactional_ids]
    return describe_transactions.DescribeTransactionsResponse(transaction_states=states)


BY_ROWS: dict[ApiKey, Callable[[Any, int, RequestContext], Any]] = {
    ApiKey.ADD_PARTITIONS_TO_TXN: _add_partitions_to_txn,
    ApiKey.TXN_OFFSET_COMMIT: _txn_offset_commit,
    ApiKey.WRITE_TXN_MARKERS: _write_txn_markers,
    ApiKey.DESCRIBE_PRODUCERS: _describe_producers,
    ApiKey.DESCRIBE_TRANSACTIONS: _describe_transactions,
}
