"""Metadata (3): brokers, topics, who leads which partition; creates topics on first use.

v0   topics by name, none named means all    v1   null means all, an empty list none; controller, racks
v2   cluster id    v4   creation may be declined    v5   offline replicas    v7   leader epochs
v8   authorised operations, where asked for
v9   flexible    v10  topic ids    v11  no operations of the cluster any more    v12  topics by id
"""

from __future__ import annotations

from qanat.api.allowed_operations import ON_CLUSTER, ON_TOPICS
from qanat.api.request_context import RequestContext
from qanat.broker.broker import Broker
from qanat.cluster import values
from qanat.cluster.rejection import Rejection
from qanat.cluster.topic_names import name_problem
from qanat.cluster.topics import CreateTopic
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import TopicId
from qanat.wire.kafka.layouts import ZERO_UUID
from qanat.wire.kafka.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

_IDS_FROM = 12


async def handle(request: MetadataRequest, context: RequestContext) -> MetadataResponse:
    broker, asked = context.broker, request.topics or []
    if _is_all(request, context.version):
        topics = list(broker.metadata.image.topics.values())
        return _answer(request, broker, [describe(broker, topic) async for topic in context.yielder.over(topics)])
    if context.version < _IDS_FROM and any(topic.name is None or topic.topic_id != ZERO_UUID for topic in asked):
        return _refused(asked)
    rejected: dict[str | None, ErrorCode] = {}
    if request.allow_auto_topic_creation and broker.settings.auto_create_topics_enable:
        rejected = await _create_missing(asked, context)
    found = await _asked(asked, context)
    for topic in found:
        if topic.name in rejected:
            topic.error_code = rejected[topic.name]
    return _answer(request, broker, found)


def _refused(asked: list[MetadataRequestTopic]) -> MetadataResponse:
    """The versions before have a place for ids, but no meaning for them."""
    code = ErrorCode.INVALID_REQUEST
    return MetadataResponse(
        topics=[MetadataResponseTopic(code, topic.name or "", topic.topic_id, partitions=[]) for topic in asked]
    )


def _is_all(request: MetadataRequest, version: int) -> bool:
    return request.topics is None or (version == 0 and not request.topics)


def _is_missing(topic: MetadataRequestTopic, broker: Broker) -> bool:
    return bool(topic.name) and topic.topic_id == ZERO_UUID and topic.name not in broker.metadata.image.topics


async def _create_missing(asked: list[MetadataRequestTopic], context: RequestContext) -> dict[str | None, ErrorCode]:
    """Kafka lets clients ask again while it creates; we answer once the topics are there. Returns what was refused."""
    broker = context.broker
    rejected: dict[str | None, ErrorCode] = {}
    async for topic in context.yielder.over(asked):
        name = topic.name
        if name and name not in rejected and _is_missing(topic, broker):
            outcome = await broker.metadata_changes.create_topic(
                CreateTopic(name, broker.metadata_changes.new_topic_id())
            )
            if isinstance(outcome, Rejection) and outcome.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                rejected[name] = outcome.code
    return rejected


async def _asked(asked: list[MetadataRequestTopic], context: RequestContext) -> list[MetadataResponseTopic]:
    """What was asked for, each topic once."""
    found: dict[tuple[str | None, bytes], MetadataResponseTopic] = {}
    async for one in context.yielder.over(asked):
        topic = _named(one, context.broker)
        found[topic.name, topic.topic_id] = topic
    return list(found.values())


def _answer(request: MetadataRequest, broker: Broker, topics: list[MetadataResponseTopic]) -> MetadataResponse:
    answer = response(broker, topics)
    if request.include_cluster_authorized_operations:
        answer.cluster_authorized_operations = ON_CLUSTER
    if request.include_topic_authorized_operations:
        for topic in topics:
            if not topic.error_code:
                topic.topic_authorized_operations = ON_TOPICS
    return answer


def _named(asked: MetadataRequestTopic, broker: Broker) -> MetadataResponseTopic:
    image = broker.metadata.image
    if asked.topic_id != ZERO_UUID:
        topic = image.topics_by_id.get(TopicId.of(asked.topic_id))
        if topic is None:
            return MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, None, asked.topic_id)
        return describe(broker, topic)
    name = asked.name or ""
    topic = image.topics.get(name)
    if topic is not None:
        return describe(broker, topic)
    is_bad = name_problem(name) is not None
    return MetadataResponseTopic(
        ErrorCode.INVALID_TOPIC_EXCEPTION if is_bad else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name
    )


def describe(broker: Broker, topic: values.Topic) -> MetadataResponseTopic:
    """One topic as clients want to know it."""
    partitions = []
    for number in range(len(topic.partitions)):
        state = broker.metadata.image.state(topic, number)
        leader, offline = whereabouts(broker, topic, number, state)
        partitions.append(
            MetadataResponsePartition(
                ErrorCode.NONE if leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
                number,
                leader,
                state.leader_epoch,
                list(state.replicas),
                list(state.in_sync_nodes),
                offline,
            )
        )
    return MetadataResponseTopic(0, topic.name, topic.identity.value.bytes, topic.is_internal, partitions)


def whereabouts(
    broker: Broker, topic: values.Topic, number: int, state: values.PartitionState
) -> tuple[int, list[int]]:
    """Who can be asked about a partition, -1 where nobody can, and which of its replicas are not to be had."""
    image = broker.metadata.image
    brokers = image.brokers
    faults = image.replica_faults.get((topic.topic_id, number), {}) if image.replica_faults else {}
    offline = [
        node_id
        for node_id in state.replicas
        if node_id not in brokers or (node_id in faults and faults[node_id].is_offline)
    ]
    if broker.local_replicas.is_unavailable(topic.name, number) and broker.node_id not in offline:
        offline.append(broker.node_id)
    return (-1 if state.leader in offline or state.leader not in brokers else state.leader), offline


def response(broker: Broker, topics: list[MetadataResponseTopic]) -> MetadataResponse:
    """These topics, and everybody who can be asked about more: ourselves at least, also where we must register anew.

    A client that is told of nobody has nobody left to ask, and some wait for ever then.
    """
    known = {broker.node_id: broker.membership.registration, **broker.metadata.image.brokers}
    brokers = [
        MetadataResponseBroker(
            registration.node_id, registration.listeners[0].host, registration.listeners[0].port, registration.rack
        )
        for registration in known.values()
        if registration.listeners
    ]
    return MetadataResponse(0, brokers, broker.metadata.image.cluster_id, broker.metadata.image.controller_id, topics)
