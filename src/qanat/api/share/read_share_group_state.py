"""ReadShareGroupState (84): the durable state of a share group in a partition (KIP-932).

v0   as of Kafka 4.1

The leader of the partition sends it to the coordinator that stores the state. Without a state, the start offset is -1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.api.request_context import RequestContext
from qanat.api.share.state_rows import authorize_state
from qanat.groups.share.state_records import ShareKey
from qanat.groups.share.state_shard import ReadState
from qanat.model.ids import NO_OFFSET
from qanat.wire.kafka.messages.read_share_group_state import (
    PartitionResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateResult,
    StateBatch,
)

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict


def authorize(request: ReadShareGroupStateRequest, access: AccessCheck) -> Verdict:
    """CLUSTER_ACTION on the cluster: only brokers ask."""
    return authorize_state(request.topics, access, ReadShareGroupStateResponse, ReadStateResult, PartitionResult)


def handle(request: ReadShareGroupStateRequest, context: RequestContext) -> object:
    return context.broker.park(_answer(request, context))


async def _answer(request: ReadShareGroupStateRequest, context: RequestContext) -> ReadShareGroupStateResponse:
    yielder = context.yielder
    results = []
    async for topic in yielder.over(request.topics):
        keys = [ShareKey(request.group_id, bytes(topic.topic_id), row.partition) for row in topic.partitions]
        rows = [await _row(key, context) async for key in yielder.over(keys)]
        results.append(ReadStateResult(topic.topic_id, rows))
    return ReadShareGroupStateResponse(results)


async def _row(key: ShareKey, context: RequestContext) -> PartitionResult:
    reply = await (await context.broker.share_partitions.states.ask(ReadState(key)))
    state = reply.state
    if state is None:
        return PartitionResult(key.partition, reply.error, start_offset=NO_OFFSET)
    batches = [StateBatch(*batch) for batch in state.batches]
    return PartitionResult(key.partition, 0, None, state.state_epoch, state.start_offset, batches)
