"""DeleteShareGroupState (86): delete the state of a share group in a partition (KIP-932).

v0   as of Kafka 4.1

The leader of the partition sends it to the coordinator that stores the state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.api.request_context import RequestContext
from qanat.api.share.state_rows import authorize_state, store_each
from qanat.groups.share.state_records import ShareKey
from qanat.groups.share.state_shard import ForgetState
from qanat.wire.kafka.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    PartitionData,
    PartitionResult,
)

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict


def authorize(request: DeleteShareGroupStateRequest, access: AccessCheck) -> Verdict:
    """CLUSTER_ACTION on the cluster: only brokers ask."""
    return authorize_state(request.topics, access, DeleteShareGroupStateResponse, DeleteStateResult, PartitionResult)


def handle(request: DeleteShareGroupStateRequest, context: RequestContext) -> object:
    return context.broker.park(_answer(request, context))


async def _answer(request: DeleteShareGroupStateRequest, context: RequestContext) -> DeleteShareGroupStateResponse:
    def wanted(topic_id: bytes, row: PartitionData) -> ForgetState:
        return ForgetState(ShareKey(request.group_id, topic_id, row.partition))

    found = await store_each(request.topics, wanted, PartitionResult, context)
    return DeleteShareGroupStateResponse([DeleteStateResult(topic_id, rows) for topic_id, rows in found])
