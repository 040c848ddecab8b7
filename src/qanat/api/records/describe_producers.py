"""DescribeProducers (61): the producers of a partition and their open transactions (KIP-664).

v0   the only one
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.api.admin_tasks import yielding
from qanat.api.request_context import RequestContext
from qanat.broker.replicas.partition import Partition
from qanat.log.producers import ProducerState as KnownProducer
from qanat.model.error_codes import ErrorCode
from qanat.security.authorization import Operation
from qanat.wire.kafka.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicRequest,
    TopicResponse,
)

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict


def authorize(request: DescribeProducersRequest, access: AccessCheck) -> Verdict:
    """READ on each topic."""
    request.topics, denied = access.split(request.topics, lambda topic: access.may_topic(Operation.READ, topic.name))
    return access.grant_without(denied, lambda response: response.topics, _denied)


def _denied(topic: TopicRequest) -> TopicResponse:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return TopicResponse(topic.name, [PartitionResponse(number, code) for number in topic.partition_indexes])


def handle(request: DescribeProducersRequest, context: RequestContext) -> object:
    return context.broker.park(_describe(request, context))


async def _describe(request: DescribeProducersRequest, context: RequestContext) -> DescribeProducersResponse:
    topics = []
    for topic in request.topics:
        rows = [await _partition(topic.name, number, context) async for number in yielding(topic.partition_indexes)]
        topics.append(TopicResponse(topic.name, rows))
    return DescribeProducersResponse(topics=topics)


async def _partition(topic: str, number: int, context: RequestContext) -> PartitionResponse:
    partition = context.broker.lookup.led(topic, number)
    if not isinstance(partition, Partition):
        return PartitionResponse(number, partition)
    known = list(partition.log.producers.states.items())
    rows = [_producer(producer_id, state) async for producer_id, state in yielding(known)]
    return PartitionResponse(number, ErrorCode.NONE, active_producers=rows)


def _producer(producer_id: int, state: KnownProducer) -> ProducerState:
    last_sequence = state.batches[-1].last_sequence if state.batches else -1
    return ProducerState(
        producer_id,
        state.epoch,
        last_sequence,
        state.last_used_ms,
        state.coordinator_epoch,
        state.transaction_first_offset,
    )
