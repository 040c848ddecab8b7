"""DeleteShareGroupState (86): nothing more is known of a share group in a partition (KIP-932).

v0   as of Kafka 4.1

Asked by the leader of the partition of whoever keeps the state.
"""

from __future__ import annotations

from qanat.groups.share.state_records import ShareKey
from qanat.groups.share.state_shard import ForgetState
from qanat.servers.kafka.dispatch import Context
from qanat.wire.kafka.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    PartitionResult,
)


def handle(request: DeleteShareGroupStateRequest, context: Context) -> object:
    return context.broker.park(_answer(request, context))


async def _answer(request: DeleteShareGroupStateRequest, context: Context) -> DeleteShareGroupStateResponse:
    states, breaths = context.broker.share_partitions.states, context.breaths
    results = []
    async for topic in breaths.over(request.topics):
        rows = []
        async for row in breaths.over(topic.partitions):
            reply = await states.ask(ForgetState(ShareKey(request.group_id, bytes(topic.topic_id), row.partition)))
            rows.append(PartitionResult(row.partition, reply.error))
        results.append(DeleteStateResult(topic.topic_id, rows))
    return DeleteShareGroupStateResponse(results)
