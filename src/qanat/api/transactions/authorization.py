"""Guards of transactions."""

from __future__ import annotations

from typing import Any

from qanat.api.authorization import GRANTED, AccessCheck, Denied, Granted, Verdict, sifted
from qanat.model.error_codes import ErrorCode
from qanat.security.authorization import Operation, ResourceKind
from qanat.wire.kafka.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    describe_transactions,
    end_txn,
    list_transactions,
    txn_offset_commit,
)

_DENIED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
_MANY_FROM = 4


def _may(access: AccessCheck, operation: Operation, transactional_id: str) -> bool:
    return access.may(operation, ResourceKind.TRANSACTIONAL_ID, transactional_id)


def authorize_add_partitions(request: add_partitions_to_txn.AddPartitionsToTxnRequest, access: AccessCheck) -> Verdict:
    """Partitions are added all or none: one that is denied makes the others OPERATION_NOT_ATTEMPTED.

    From version 4 on, only brokers send it.
    """
    if access.version >= _MANY_FROM:
        if access.may_cluster(Operation.CLUSTER_ACTION):
            return GRANTED
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return Denied(add_partitions_to_txn.AddPartitionsToTxnResponse(error_code=code))
    topics = request.v3_and_below_topics
    if not _may(access, Operation.WRITE, request.v3_and_below_transactional_id):
        return Denied(_add_results(topics, dict.fromkeys((topic.name for topic in topics), _DENIED)))
    _, denied = sifted(topics, lambda topic: access.may_topic(Operation.WRITE, topic.name))
    if not denied:
        return GRANTED
    codes = dict.fromkeys((topic.name for topic in topics), ErrorCode.OPERATION_NOT_ATTEMPTED)
    codes |= dict.fromkeys((topic.name for topic in denied), ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return Denied(_add_results(topics, codes))


def _add_results(
    topics: list[add_partitions_to_txn.AddPartitionsToTxnTopic], codes: dict[str, ErrorCode]
) -> add_partitions_to_txn.AddPartitionsToTxnResponse:
    return add_partitions_to_txn.AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            add_partitions_to_txn.AddPartitionsToTxnTopicResult(
                topic.name,
                [
                    add_partitions_to_txn.AddPartitionsToTxnPartitionResult(number, codes[topic.name])
                    for number in topic.partitions
                ],
            )
            for topic in topics
        ]
    )


def authorize_add_offsets(request: add_offsets_to_txn.AddOffsetsToTxnRequest, access: AccessCheck) -> Verdict:
    if not _may(access, Operation.WRITE, request.transactional_id):
        return Denied(add_offsets_to_txn.AddOffsetsToTxnResponse(error_code=_DENIED))
    if not access.may_group(Operation.READ, request.group_id):
        return Denied(add_offsets_to_txn.AddOffsetsToTxnResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))
    return GRANTED


def authorize_end(request: end_txn.EndTxnRequest, access: AccessCheck) -> Verdict:
    if _may(access, Operation.WRITE, request.transactional_id):
        return GRANTED
    return Denied(end_txn.EndTxnResponse(error_code=_DENIED))


def authorize_offset_commit(request: txn_offset_commit.TxnOffsetCommitRequest, access: AccessCheck) -> Verdict:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    kept, denied = sifted(request.topics, lambda topic: access.may_topic(Operation.READ, topic.name))
    if not _may(access, Operation.WRITE, request.transactional_id):
        kept, denied, code = [], request.topics, _DENIED
    elif not access.may_group(Operation.READ, request.group_id):
        kept, denied, code = [], request.topics, ErrorCode.GROUP_AUTHORIZATION_FAILED
    if not denied:
        return GRANTED
    rows = [
        txn_offset_commit.TxnOffsetCommitResponseTopic(
            topic.name,
            [txn_offset_commit.TxnOffsetCommitResponsePartition(row.partition_index, code) for row in topic.partitions],
        )
        for topic in denied
    ]
    if not kept:
        return Denied(txn_offset_commit.TxnOffsetCommitResponse(topics=rows))
    request.topics = kept

    def complete(response: txn_offset_commit.TxnOffsetCommitResponse) -> txn_offset_commit.TxnOffsetCommitResponse:
        response.topics += rows
        return response

    return Granted(complete)


def authorize_describe(request: describe_transactions.DescribeTransactionsRequest, access: AccessCheck) -> Verdict:
    kept, denied = sifted(request.transactional_ids, lambda one: _may(access, Operation.DESCRIBE, one))
    request.transactional_ids = kept

    def complete(response: Any) -> Any:
        for state in response.transaction_states:
            state.topics = [one for one in state.topics if access.may_topic(Operation.DESCRIBE, one.topic)]
        response.transaction_states += [describe_transactions.TransactionState(_DENIED, one) for one in denied]
        return response

    return Granted(complete)


def authorize_list(request: list_transactions.ListTransactionsRequest, access: AccessCheck) -> Verdict:
    def complete(response: list_transactions.ListTransactionsResponse) -> list_transactions.ListTransactionsResponse:
        response.transaction_states = [
            one for one in response.transaction_states if _may(access, Operation.DESCRIBE, one.transactional_id)
        ]
        return response

    return Granted(complete)
