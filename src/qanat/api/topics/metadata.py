"""Metadata (3): brokers, topics, leaders of partitions; creates topics on first use.

v0   topics by name, no names mean all    v1   null means all, an empty list none; controller, racks
v2   cluster id    v4   creation may be declined    v5   offline replicas    v7   leader epochs
v8   authorized operations, on request
v9   flexible    v10  topic ids    v11  no operations of the cluster any more    v12  topics by id
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.api.allowed_operations import ON_CLUSTER, ON_TOPICS
from qanat.api.caller import Caller
from qanat.api.endpoints import endpoint_of
from qanat.api.request_context import RequestContext
from qanat.api.topics.authorization import may_create
from qanat.broker.broker import Broker
from qanat.cluster import values
from qanat.cluster.rejection import Rejection
from qanat.cluster.topics import CreateTopic
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import TopicId
from qanat.model.topic_names import name_problem
from qanat.security.authorization import Operation
from qanat.wire.kafka.layouts import ZERO_UUID
from qanat.wire.kafka.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from qanat.api.authorization import AccessCheck, Verdict

_IDS_FROM = 12


def authorize(request: MetadataRequest, access: AccessCheck) -> Verdict:
    """DESCRIBE on each topic, and CREATE where the request would create it; of all topics, only those are shown."""
    is_all = _is_all(request, access.version)
    allowed: list[MetadataRequestTopic] = []
    denied: list[MetadataRequestTopic] = []
    if not is_all:
        creates = request.allow_auto_topic_creation and access.broker.settings.auto_create_topics_enable
        allowed, denied = access.split(request.topics or (), lambda topic: _may_see(topic, access, creates=creates))
        # In version 0 alone an empty list means all topics; there, an impossible name stands for none.
        request.topics = allowed or ([MetadataRequestTopic(name="")] if access.version == 0 else [])

    def complete(response: MetadataResponse) -> MetadataResponse:
        if is_all:
            response.topics = [one for one in response.topics if access.may_topic(Operation.DESCRIBE, one.name or "")]
        elif not allowed:
            response.topics = []
        if request.include_topic_authorized_operations:
            for topic in response.topics:
                if topic.name:
                    topic.topic_authorized_operations = access.topic_operations(topic.name)
        response.topics += [_denied(topic) for topic in denied]
        if request.include_cluster_authorized_operations:
            response.cluster_authorized_operations = access.cluster_operations()
        return response

    return access.grant(complete)


def _may_see(topic: MetadataRequestTopic, access: AccessCheck, *, creates: bool) -> bool:
    """Whether the caller may describe a topic and, where the request would create it, create it."""
    name = access.topic_name(topic.name, topic.topic_id)
    if name is None:
        return True
    if not access.may_topic(Operation.DESCRIBE, name):
        return False
    is_there = name in access.broker.metadata.image.topics
    return is_there or not creates or may_create(name, access)


def _denied(topic: MetadataRequestTopic) -> MetadataResponseTopic:
    """A refusal names a topic as the request did: an id does not reveal its name."""
    name = None if topic.topic_id != ZERO_UUID else topic.name
    return MetadataResponseTopic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name, topic.topic_id)


async def handle(request: MetadataRequest, context: RequestContext) -> MetadataResponse:
    broker, asked = context.broker, request.topics or []
    if _is_all(request, context.version):
        topics = list(broker.metadata.image.topics.values())
        return _answer(request, context, [describe(broker, topic) async for topic in context.yielder.over(topics)])
    if context.version < _IDS_FROM and any(topic.name is None or topic.topic_id != ZERO_UUID for topic in asked):
        return _refused(asked)
    rejected: dict[str | None, ErrorCode] = {}
    if request.allow_auto_topic_creation and broker.settings.auto_create_topics_enable:
        rejected = await _create_missing(asked, context)
    found = await _requested(asked, context)
    for topic in found:
        if topic.name in rejected:
            topic.error_code = rejected[topic.name]
    return _answer(request, context, found)


def _refused(asked: list[MetadataRequestTopic]) -> MetadataResponse:
    """Refuse ids in versions that have a field for them, but no meaning."""
    code = ErrorCode.INVALID_REQUEST
    return MetadataResponse(
        topics=[MetadataResponseTopic(code, topic.name or "", topic.topic_id, partitions=[]) for topic in asked]
    )


def _is_all(request: MetadataRequest, version: int) -> bool:
    return request.topics is None or (version == 0 and not request.topics)


def _is_missing(topic: MetadataRequestTopic, broker: Broker) -> bool:
    return bool(topic.name) and topic.topic_id == ZERO_UUID and topic.name not in broker.metadata.image.topics


async def _create_missing(asked: list[MetadataRequestTopic], context: RequestContext) -> dict[str | None, ErrorCode]:
    """Create missing topics; returns the refused ones. Kafka lets clients retry, Qanat answers when they exist."""
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


async def _requested(asked: list[MetadataRequestTopic], context: RequestContext) -> list[MetadataResponseTopic]:
    """The requested topics, each once."""
    found: dict[tuple[str | None, bytes], MetadataResponseTopic] = {}
    async for one in context.yielder.over(asked):
        topic = _named(one, context.broker)
        found[topic.name, topic.topic_id] = topic
    return list(found.values())


def _answer(request: MetadataRequest, context: RequestContext, topics: list[MetadataResponseTopic]) -> MetadataResponse:
    answer = response(context.broker, context.caller, topics)
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
    """The response for one topic."""
    partitions = []
    for number in range(len(topic.partitions)):
        state = broker.metadata.image.state(topic, number)
        leader, offline = leader_and_offline(broker, topic, number, state)
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


def leader_and_offline(
    broker: Broker, topic: values.Topic, number: int, state: values.PartitionState
) -> tuple[int, list[int]]:
    """The leader of a partition, -1 where none is available, and its offline replicas."""
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


def response(broker: Broker, caller: Caller, topics: list[MetadataResponseTopic]) -> MetadataResponse:
    """These topics, and all live brokers that have the caller's listener: this one at least, also while it registers
    again.

    A client that gets no broker has none left to connect to, and some clients then wait for ever.
    """
    known = {broker.node_id: broker.membership.registration, **broker.metadata.image.brokers}
    brokers = [
        MetadataResponseBroker(registration.node_id, listener.host, listener.port, registration.rack)
        for registration in known.values()
        if (listener := endpoint_of(registration, caller)) is not None
    ]
    return MetadataResponse(0, brokers, broker.metadata.image.cluster_id, broker.metadata.image.controller_id, topics)
