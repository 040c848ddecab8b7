"""InitializeShareGroupState (83): the state of a share group's partition begins, or begins anew (KIP-932).

v0   as of Kafka 4.1

Asked by the leader of the partition of whoever keeps the state.
"""

from __future__ import annotations

from qanat.api.request_context import RequestContext
from qanat.api.share.state_rows import outcomes
from qanat.groups.share.state_records import ShareKey
from qanat.groups.share.state_shard import InitialiseState
from qanat.wire.kafka.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionData,
    PartitionResult,
)


def handle(request: InitializeShareGroupStateRequest, context: RequestContext) -> object:
    return context.broker.park(_answer(request, context))


async def _answer(
    request: InitializeShareGroupStateRequest, context: RequestContext
) -> InitializeShareGroupStateResponse:
    def wanted(topic_id: bytes, row: PartitionData) -> InitialiseState:
        return InitialiseState(ShareKey(request.group_id, topic_id, row.partition), row.state_epoch, row.start_offset)

    found = await outcomes(request.topics, wanted, PartitionResult, context)
    return InitializeShareGroupStateResponse([InitializeStateResult(topic_id, rows) for topic_id, rows in found])
