"""DescribeTopicPartitions (75): topics and their partitions, a page at a time (KIP-966).

v0   flexible from the start; the next request continues at the answer's cursor

No names mean all topics. They come in the order of their names, whatever the request's order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.api.allowed_operations import ON_TOPICS
from qanat.api.request_context import RequestContext
from qanat.api.topics.metadata import leader_and_offline
from qanat.broker.broker import Broker
from qanat.cluster import values
from qanat.model.error_codes import ErrorCode
from qanat.model.topic_names import name_problem
from qanat.security.authorization import Operation
from qanat.wire.kafka.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    ResponseCursor,
    TopicRequest,
)

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict

PAGE_PARTITIONS_MAX = 2000
"""Partitions in one answer, whatever the client allows: Kafka's `max.request.partition.size.limit`."""


def authorize(request: DescribeTopicPartitionsRequest, access: AccessCheck) -> Verdict:
    """DESCRIBE on each topic; of all topics, only those are shown."""
    denied: list[TopicRequest] = []
    if not request.topics:
        names = [TopicRequest(name) for name in access.broker.metadata.image.topics]
        request.topics = [one for one in names if access.may_topic(Operation.DESCRIBE, one.name)]
    else:
        request.topics, denied = access.split(
            request.topics, lambda topic: access.may_topic(Operation.DESCRIBE, topic.name)
        )
    is_nothing = not request.topics
    if is_nothing:
        request.topics = [TopicRequest("")]

    def complete(response: DescribeTopicPartitionsResponse) -> DescribeTopicPartitionsResponse:
        if is_nothing:
            response.topics = []
        for topic in response.topics:
            if topic.name:
                topic.topic_authorized_operations = access.topic_operations(topic.name)
        response.topics += [
            DescribeTopicPartitionsResponseTopic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, topic.name) for topic in denied
        ]
        return response

    return access.grant(complete)


async def handle(request: DescribeTopicPartitionsRequest, context: RequestContext) -> DescribeTopicPartitionsResponse:
    broker, cursor = context.broker, request.cursor
    asked = [topic.name for topic in request.topics]
    start = "" if cursor is None else cursor.topic_name
    if cursor is not None and ((asked and start not in asked) or cursor.partition_index < 0):
        return _refused(asked)
    await context.yielder.yield_now()
    wanted = {name for name in asked or broker.metadata.image.topics if name >= start}
    await context.yielder.yield_now()
    names = sorted(wanted)
    left = max(min(request.response_partition_limit, PAGE_PARTITIONS_MAX), 1)
    response = DescribeTopicPartitionsResponse(topics=[])
    async for name in context.yielder.over(names):
        first = cursor.partition_index if cursor is not None and name == start else 0
        if left == 0:
            response.next_cursor = ResponseCursor(name, first)
            break
        topic = broker.metadata.image.topics.get(name)
        described = _unknown(name) if topic is None else _describe(broker, topic, range(first, first + left))
        response.topics.append(described)
        left -= len(described.partitions)
        if topic is not None and first + len(described.partitions) < len(topic.partitions):
            response.next_cursor = ResponseCursor(name, first + len(described.partitions))
            break
    return response


def _refused(names: list[str]) -> DescribeTopicPartitionsResponse:
    """Refuse a cursor of another request."""
    return DescribeTopicPartitionsResponse(
        topics=[DescribeTopicPartitionsResponseTopic(ErrorCode.INVALID_REQUEST, name) for name in names]
    )


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    is_bad = name_problem(name) is not None
    code = ErrorCode.INVALID_TOPIC_EXCEPTION if is_bad else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return DescribeTopicPartitionsResponseTopic(code, name, topic_authorized_operations=ON_TOPICS)


def _describe(broker: Broker, topic: values.Topic, numbers: range) -> DescribeTopicPartitionsResponseTopic:
    partitions = []
    for number in range(numbers.start, min(numbers.stop, len(topic.partitions))):
        state = broker.metadata.image.state(topic, number)
        leader, offline = leader_and_offline(broker, topic, number, state)
        partitions.append(
            DescribeTopicPartitionsResponsePartition(
                ErrorCode.NONE if leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
                number,
                leader,
                state.leader_epoch,
                list(state.replicas),
                list(state.in_sync_nodes),
                [member.node_id for member in state.eligible],
                [],
                offline,
            )
        )
    return DescribeTopicPartitionsResponseTopic(
        0, topic.name, topic.identity.value.bytes, topic.is_internal, partitions, ON_TOPICS
    )
