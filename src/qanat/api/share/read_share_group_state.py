"""ReadShareGroupState (84): what is durable of a share group in a partition (KIP-932).

v0   as of Kafka 4.1

Asked by the leader of the partition of whoever keeps the state. Where nothing is known, the start offset is -1.
"""

from __future__ import annotations

from qanat.api.request_context import RequestContext
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
