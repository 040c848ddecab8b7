"""DescribeTransactions (65): the state of transactional ids (KIP-664).

v0   the only one
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.api.admin_tasks import yielding
from qanat.api.request_context import RequestContext
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import TopicPartition
from qanat.security.authorization import Operation
from qanat.transactions.replies import DescribeReply
from qanat.transactions.requests import DescribeTransaction
from qanat.wire.kafka.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict


def authorize(request: DescribeTransactionsRequest, access: AccessCheck) -> Verdict:
    """DESCRIBE on each transactional id; topics that the caller may not DESCRIBE are left out."""
    request.transactional_ids, denied = access.split(
        request.transactional_ids, lambda one: access.may_transactional_id(Operation.DESCRIBE, one)
    )

    def complete(response: DescribeTransactionsResponse) -> DescribeTransactionsResponse:
        for state in response.transaction_states:
            state.topics = [one for one in state.topics if access.may_topic(Operation.DESCRIBE, one.topic)]
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        response.transaction_states += [TransactionState(code, one) for one in denied]
        return response

    return access.grant(complete)


def handle(request: DescribeTransactionsRequest, context: RequestContext) -> object:
    return context.broker.park(_describe(request, context))


async def _describe(request: DescribeTransactionsRequest, context: RequestContext) -> DescribeTransactionsResponse:
    states = [await _one(transactional_id, context) async for transactional_id in yielding(request.transactional_ids)]
    return DescribeTransactionsResponse(transaction_states=states)


async def _one(transactional_id: str, context: RequestContext) -> TransactionState:
    reply = await context.broker.transactions.ask(transactional_id, DescribeTransaction(transactional_id))
    assert isinstance(reply, DescribeReply)
    record = reply.record
    if record is None:
        return TransactionState(reply.error, transactional_id)
    return TransactionState(
        ErrorCode.NONE,
        transactional_id,
        record.state.label,
        record.timeout_ms,
        record.start_ms,
        record.producer_id,
        record.producer_epoch,
        _by_topic(record.partitions),
    )


def _by_topic(partitions: tuple[TopicPartition, ...]) -> list[TopicData]:
    topics: dict[str, TopicData] = {}
    for at in partitions:
        topics.setdefault(at.topic, TopicData(at.topic, [])).partitions.append(at.partition)
    return list(topics.values())
