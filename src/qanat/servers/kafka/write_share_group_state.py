"""WriteShareGroupState (85): what changed for a share group in a partition; answered when it is durable (KIP-932).

v0   as of Kafka 4.1

Asked by the leader of the partition of whoever keeps the state. An asker of an earlier state or leader epoch is fenced.
"""

from __future__ import annotations

from qanat.groups.share.record_states import StateBatch
from qanat.groups.share.state_records import ShareKey
from qanat.groups.share.state_shard import WriteState
from qanat.servers.kafka.dispatch import Context
from qanat.wire.kafka.messages.write_share_group_state import (
    PartitionData,
    PartitionResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult,
)


def handle(request: WriteShareGroupStateRequest, context: Context) -> object:
    return context.broker.park(_answer(request, context))


async def _answer(request: WriteShareGroupStateRequest, context: Context) -> WriteShareGroupStateResponse:
    states, breaths = context.broker.share_partitions.states, context.breaths
    results = []
    async for topic in breaths.over(request.topics):
        rows = []
        async for row in breaths.over(topic.partitions):
            key = ShareKey(request.group_id, bytes(topic.topic_id), row.partition)
            reply = await states.ask(_wanted(key, row))
            rows.append(PartitionResult(row.partition, reply.error))
        results.append(WriteStateResult(topic.topic_id, rows))
    return WriteShareGroupStateResponse(results)


def _wanted(key: ShareKey, row: PartitionData) -> WriteState:
    batches = tuple(
        StateBatch(one.first_offset, one.last_offset, one.delivery_state, one.delivery_count)
        for one in row.state_batches
    )
    return WriteState(key, row.state_epoch, row.leader_epoch, row.start_offset, batches)
