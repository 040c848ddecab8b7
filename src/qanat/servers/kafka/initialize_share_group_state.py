"""InitializeShareGroupState (83): the state of a share group's partition begins, or begins anew (KIP-932).

v0   as of Kafka 4.1

Asked by the leader of the partition of whoever keeps the state.
"""

from __future__ import annotations

from qanat.groups.share.state_records import ShareKey
from qanat.groups.share.state_shard import InitialiseState
from qanat.servers.kafka.dispatch import Context
from qanat.wire.kafka.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionResult,
)


def handle(request: InitializeShareGroupStateRequest, context: Context) -> object:
    return context.broker.park(_answer(request, context))


async def _answer(request: InitializeShareGroupStateRequest, context: Context) -> InitializeShareGroupStateResponse:
    states, breaths = context.broker.share_partitions.states, context.breaths
    results = []
    async for topic in breaths.over(request.topics):
        rows = []
        async for row in breaths.over(topic.partitions):
            key = ShareKey(request.group_id, bytes(topic.topic_id), row.partition)
            reply = await states.ask(InitialiseState(key, row.state_epoch, row.start_offset))
            rows.append(PartitionResult(row.partition, reply.error))
        results.append(InitializeStateResult(topic.topic_id, rows))
    return InitializeShareGroupStateResponse(results)
