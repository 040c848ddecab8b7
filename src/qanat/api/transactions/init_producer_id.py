"""InitProducerId (22): an id for an idempotent producer; an id and an epoch for a transactional one.

v2   flexible    v3   a producer may raise its own epoch (KIP-360)    v4   PRODUCER_FENCED    v5   TRANSACTION_ABORTABLE

A producer whose predecessor left a transaction open gets its epoch when that is aborted, instead of
CONCURRENT_TRANSACTIONS, as long as it does not take long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.api.request_context import RequestContext
from qanat.api.transactions.transaction_errors import fenced_as
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.security.authorization import Operation
from qanat.transactions.replies import ProducerReply
from qanat.transactions.requests import InitProducer, ProducerIdAndEpoch
from qanat.wire.kafka.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict

_FENCED_FROM = 4


def authorize(request: InitProducerIdRequest, access: AccessCheck) -> Verdict:
    """WRITE on the transactional id. An idempotent producer needs IDEMPOTENT_WRITE, or WRITE on any topic (KIP-679)."""
    if request.transactional_id is not None:
        if access.may_transactional_id(Operation.WRITE, request.transactional_id):
            return access.grant()
        return access.deny(_refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    if access.may_cluster(Operation.IDEMPOTENT_WRITE) or access.may_any_topic(Operation.WRITE):
        return access.grant()
    return access.deny(_refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))


def handle(request: InitProducerIdRequest, context: RequestContext) -> object:
    if (request.producer_id < 0) != (request.producer_epoch < 0):
        return _refused(ErrorCode.INVALID_REQUEST)
    if request.transactional_id is None:
        return _allocate(context)
    if request.transactional_id == "":
        return _refused(ErrorCode.INVALID_REQUEST)
    return context.broker.park(_initialise(request, request.transactional_id, context))


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_epoch=-1)


async def _allocate(context: RequestContext) -> InitProducerIdResponse:
    try:
        producer_id = await context.broker.producer_ids.allocate()
    except QanatError as fault:
        return _refused(fault.code)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


async def _initialise(
    request: InitProducerIdRequest, transactional_id: str, context: RequestContext
) -> InitProducerIdResponse:
    expected = None
    if request.producer_id >= 0:
        expected = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    asked = InitProducer(transactional_id, request.transaction_timeout_ms, expected)
    reply = await context.broker.transactions.ask(transactional_id, asked)
    assert isinstance(reply, ProducerReply)
    if reply.error:
        return _refused(fenced_as(reply.error, context.version, known_from=_FENCED_FROM))
    return InitProducerIdResponse(producer_id=reply.producer_id, producer_epoch=reply.producer_epoch)
