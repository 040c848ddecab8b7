"""InitProducerId (22): an id for an idempotent producer.

v2   flexible    v3   a producer may raise its own epoch (KIP-360)    v4   PRODUCER_FENCED    v5   TV2

Transactions are not served yet: a transactional id is refused with TRANSACTIONAL_ID_AUTHORIZATION_FAILED's
plainer sister, INVALID_REQUEST.
"""

from __future__ import annotations

from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.servers.kafka.dispatch import Context
from qanat.wire.kafka.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_LAST_EPOCH = 2**15 - 1


def handle(request: InitProducerIdRequest, context: Context) -> object:
    if request.transactional_id is not None:
        return _refused(
            ErrorCode.INVALID_REQUEST if request.transactional_id == "" else ErrorCode.COORDINATOR_NOT_AVAILABLE
        )
    if (request.producer_id < 0) != (request.producer_epoch < 0):
        return _refused(ErrorCode.INVALID_REQUEST)
    return _allocate(context)


def _refused(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_epoch=-1)


async def _allocate(context: Context) -> InitProducerIdResponse:
    try:
        producer_id = await context.broker.producer_ids.allocate()
    except QanatError as fault:
        return _refused(fault.code)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
