"""EndTxn (26): commit or abort a transaction.

v2   PRODUCER_FENCED    v3   flexible    v4   TRANSACTION_ABORTABLE may be answered
v5   transaction version 2: every end raises the epoch, and the answer carries it (KIP-890)

Answered when the decision is durable; the markers follow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.api.request_context import RequestContext
from qanat.api.transactions.transaction_errors import fenced_as
from qanat.model.error_codes import ErrorCode
from qanat.security.authorization import Operation
from qanat.transactions.records import CLASSIC, EPOCH_PER_TRANSACTION
from qanat.transactions.replies import ProducerReply
from qanat.transactions.requests import EndTransaction
from qanat.wire.kafka.messages.end_txn import EndTxnRequest, EndTxnResponse

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict

_FENCED_FROM, _EPOCH_FROM = 2, 5


def authorize(request: EndTxnRequest, access: AccessCheck) -> Verdict:
    """WRITE on the transactional id."""
    if access.may_transactional_id(Operation.WRITE, request.transactional_id):
        return access.grant()
    return access.deny(EndTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))


def handle(request: EndTxnRequest, context: RequestContext) -> object:
    return context.broker.park(_end(request, context))


async def _end(request: EndTxnRequest, context: RequestContext) -> EndTxnResponse:
    asked = EndTransaction(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        request.committed,
        EPOCH_PER_TRANSACTION if context.version >= _EPOCH_FROM else CLASSIC,
    )
    reply = await context.broker.transactions.ask(request.transactional_id, asked)
    assert isinstance(reply, ProducerReply)
    error = fenced_as(reply.error, context.version, known_from=_FENCED_FROM)
    return EndTxnResponse(error_code=error, producer_id=reply.producer_id, producer_epoch=reply.producer_epoch)
