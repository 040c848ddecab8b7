"""WriteShareGroupState (85): store changes of a share group's state in a partition; answered when durable (KIP-932).

v0   as of Kafka 4.1

The leader of the partition sends it to the coordinator that stores the state. An earlier state epoch or leader epoch is
fenced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.api.request_context import RequestContext
from qanat.api.share.state_rows import authorize_state, store_each
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

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict


def authorize(request: WriteShareGroupStateRequest, access: AccessCheck) -> Verdict:
    """CLUSTER_ACTION on the cluster: only brokers ask."""
    return authorize_state(request.topics, access, WriteShareGroupStateResponse, WriteStateResult, PartitionResult)


def handle(request: WriteShareGroupStateRequest, context: RequestContext) -> object:
    return context.broker.park(_answer(request, context))


async def _answer(request: WriteShareGroupStateRequest, context: RequestContext) -> WriteShareGroupStateResponse:
    def wanted(topic_id: bytes, row: PartitionData) -> WriteState:
        return _wanted(ShareKey(request.group_id, topic_id, row.partition), row)

    found = await store_each(request.topics, wanted, PartitionResult, context)
    return WriteShareGroupStateResponse([WriteStateResult(topic_id, rows) for topic_id, rows in found])


def _wanted(key: ShareKey, row: PartitionData) -> WriteState:
    batches = tuple(
        StateBatch(one.first_offset, one.last_offset, one.delivery_state, one.delivery_count)
        for one in row.state_batches
    )
    return WriteState(key, row.state_epoch, row.leader_epoch, row.start_offset, batches)
