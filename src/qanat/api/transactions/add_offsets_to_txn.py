"""AddOffsetsToTxn (25): add a group, whose offsets a transaction will commit.

v2   PRODUCER_FENCED    v3   flexible    v4   TRANSACTION_ABORTABLE may be answered

It adds the group's partition of `__consumer_offsets`. Clients of transaction version 2 do without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.api.request_context import RequestContext
from qanat.api.transactions.transaction_errors import fenced_as
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import TopicPartition
from qanat.model.topic_names import OFFSETS_TOPIC
from qanat.security.authorization import Operation
from qanat.transactions.replies import AddReply
from qanat.transactions.requests import AddPartitions
from qanat.wire.kafka.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict

_FENCED_FROM = 2


def authorize(request: AddOffsetsToTxnRequest, access: AccessCheck) -> Verdict:
    """WRITE on the transactional id, READ on the group."""
    if not access.may_transactional_id(Operation.WRITE, request.transactional_id):
        return access.deny(AddOffsetsToTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    if not access.may_group(Operation.READ, request.group_id):
        return access.deny(AddOffsetsToTxnResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))
    return access.grant()


def handle(request: AddOffsetsToTxnRequest, context: RequestContext) -> object:
    return context.broker.park(_add(request, context))


async def _add(request: AddOffsetsToTxnRequest, context: RequestContext) -> AddOffsetsToTxnResponse:
    broker = context.broker
    error = await broker.groups.ensure_topic()
    if error is not ErrorCode.NONE:
        return AddOffsetsToTxnResponse(error_code=error)
    at = TopicPartition(OFFSETS_TOPIC, broker.groups.partition_of(request.group_id))
    asked = AddPartitions(request.transactional_id, request.producer_id, request.producer_epoch, (at,))
    reply = await broker.transactions.ask(request.transactional_id, asked)
    assert isinstance(reply, AddReply)
    return AddOffsetsToTxnResponse(error_code=fenced_as(reply.error, context.version, known_from=_FENCED_FROM))
