"""AddPartitionsToTxn (24): add partitions to which a transaction will write.

v2   PRODUCER_FENCED    v3   flexible    v4   brokers send several transactions at once, or only verify that a partition
is part of one (KIP-890)    v5   TRANSACTION_ABORTABLE

One unknown partition keeps the others out: they are answered with OPERATION_NOT_ATTEMPTED.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.api.request_context import RequestContext
from qanat.api.transactions.transaction_errors import fenced_as
from qanat.cluster.topic_configs import MIRROR_SOURCE
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import TopicPartition
from qanat.security.authorization import Operation
from qanat.transactions.records import CLASSIC, EPOCH_PER_TRANSACTION
from qanat.transactions.replies import AddReply, VerifyReply
from qanat.transactions.requests import AddPartitions, VerifyPartitions
from qanat.wire.kafka.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict

_FENCED_FROM, _MANY_FROM = 2, 4


def authorize(request: AddPartitionsToTxnRequest, access: AccessCheck) -> Verdict:
    """WRITE on the transactional id and on every topic: one that is denied makes the others OPERATION_NOT_ATTEMPTED.

    From version 4 on only brokers send it: CLUSTER_ACTION on the cluster.
    """
    if access.version >= _MANY_FROM:
        if access.may_cluster(Operation.CLUSTER_ACTION):
            return access.grant()
        return access.deny(AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    topics = request.v3_and_below_topics
    if not access.may_transactional_id(Operation.WRITE, request.v3_and_below_transactional_id):
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return access.deny(_denied(topics, dict.fromkeys((topic.name for topic in topics), code)))
    _, denied = access.split(topics, lambda topic: access.may_topic(Operation.WRITE, topic.name))
    if not denied:
        return access.grant()
    known = access.broker.metadata.image.topics
    codes = {
        topic.name: ErrorCode.OPERATION_NOT_ATTEMPTED if topic.name in known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for topic in topics
    }
    codes |= dict.fromkeys((topic.name for topic in denied), ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return access.deny(_denied(topics, codes))


def _denied(topics: list[AddPartitionsToTxnTopic], codes: dict[str, ErrorCode]) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            AddPartitionsToTxnTopicResult(
                topic.name,
                [AddPartitionsToTxnPartitionResult(number, codes[topic.name]) for number in topic.partitions],
            )
            for topic in topics
        ]
    )


def handle(request: AddPartitionsToTxnRequest, context: RequestContext) -> object:
    return context.broker.park(_many(request, context) if context.version >= _MANY_FROM else _one(request, context))


async def _one(request: AddPartitionsToTxnRequest, context: RequestContext) -> AddPartitionsToTxnResponse:
    transaction = AddPartitionsToTxnTransaction(
        request.v3_and_below_transactional_id,
        request.v3_and_below_producer_id,
        request.v3_and_below_producer_epoch,
        verify_only=False,
        topics=request.v3_and_below_topics,
    )
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=await _results(transaction, CLASSIC, context))


async def _many(request: AddPartitionsToTxnRequest, context: RequestContext) -> AddPartitionsToTxnResponse:
    results = [
        AddPartitionsToTxnResult(one.transactional_id, await _results(one, EPOCH_PER_TRANSACTION, context))
        async for one in context.yielder.over(request.transactions)
    ]
    return AddPartitionsToTxnResponse(results_by_transaction=results)


async def _results(
    transaction: AddPartitionsToTxnTransaction, client_version: int, context: RequestContext
) -> list[AddPartitionsToTxnTopicResult]:
    yielder = context.yielder
    partitions = [
        TopicPartition(topic.name, number)
        async for topic in yielder.over(transaction.topics)
        async for number in yielder.over(topic.partitions)
    ]
    known = {at: _is_there(at, context) async for at in yielder.over(partitions)}
    mirrored = {at for at in partitions if context.broker.metadata.image.overrides(at.topic).get(MIRROR_SOURCE)}
    if mirrored:
        errors = {
            at: ErrorCode.POLICY_VIOLATION if at in mirrored else ErrorCode.OPERATION_NOT_ATTEMPTED
            async for at in yielder.over(partitions)
        }
    elif all(known.values()):
        errors = await _ask(transaction, tuple(partitions), client_version, context)
    else:
        errors = {
            at: ErrorCode.OPERATION_NOT_ATTEMPTED if is_known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            async for at, is_known in yielder.over(known.items())
        }
    return [await _topic(topic, errors, context) async for topic in yielder.over(transaction.topics)]


def _is_there(at: TopicPartition, context: RequestContext) -> bool:
    topic = context.broker.metadata.image.topics.get(at.topic)
    return topic is not None and 0 <= at.partition < len(topic.partitions)


async def _ask(
    transaction: AddPartitionsToTxnTransaction,
    partitions: tuple[TopicPartition, ...],
    client_version: int,
    context: RequestContext,
) -> dict[TopicPartition, ErrorCode]:
    who = (transaction.transactional_id, transaction.producer_id, transaction.producer_epoch)
    coordinator = context.broker.transactions
    if transaction.verify_only:
        verified = await coordinator.ask(transaction.transactional_id, VerifyPartitions(*who, partitions))
        assert isinstance(verified, VerifyReply)
        return verified.errors
    added = await coordinator.ask(transaction.transactional_id, AddPartitions(*who, partitions, client_version))
    assert isinstance(added, AddReply)
    return dict.fromkeys(partitions, added.error)


async def _topic(
    topic: AddPartitionsToTxnTopic, errors: dict[TopicPartition, ErrorCode], context: RequestContext
) -> AddPartitionsToTxnTopicResult:
    def error_of(number: int) -> ErrorCode:
        return fenced_as(errors[TopicPartition(topic.name, number)], context.version, known_from=_FENCED_FROM)

    rows = [
        AddPartitionsToTxnPartitionResult(number, error_of(number))
        async for number in context.yielder.over(topic.partitions)
    ]
    return AddPartitionsToTxnTopicResult(topic.name, rows)
