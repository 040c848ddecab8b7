"""WriteShareGroupState (85): what changed for a share group in a partition; answered when it is durable (KIP-932).

v0   as of Kafka 4.1

Asked by the leader of the partition of whoever keeps the state. An asker of an earlier state or leader epoch is fenced.
"""

from __future__ import annotations

from qanat.api.request_context import RequestContext
from qanat.api.share.state_rows import outcomes
from qanat.groups.share.record_states import StateBatch
from qanat.groups.share.state_records import ShareKey
from qanat.groups.share.state_shard import WriteState
from qanat.wire.kafka.messages.write_share_group_state import (
    PartitionData,
    PartitionResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult,
)


def handle(request: WriteShareGroupStateRequest, context: RequestContext) -> object:
    return context.broker.park(_answer(request, context))


async def _answer(request: WriteShareGroupStateRequest, context: RequestContext) -> WriteShareGroupStateResponse:
    def wanted(topic_id: bytes, row: PartitionData) -> WriteState:
        return _wanted(ShareKey(request.group_id, topic_id, row.partition), row)

    found = await outcomes(request.topics, wanted, PartitionResult, context)
    return WriteShareGroupStateResponse([WriteStateResult(topic_id, rows) for topic_id, rows in found])


def _wanted(key: ShareKey, row: PartitionData) -> WriteState:
    batches = tuple(
        StateBatch(one.first_offset, one.last_offset, one.delivery_state, one.delivery_count)
        for one in row.state_batches
    )
    return WriteState(key, row.state_epoch, row.leader_epoch, row.start_offset, batches)
