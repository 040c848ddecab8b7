"""Guards of what looks at topics and administers them."""

from __future__ import annotations

from qanat.api.allowed_operations import ON_CLUSTER, ON_TOPICS
from qanat.api.authorization import GRANTED, AccessCheck, Granted, Verdict, sifted
from qanat.model.error_codes import ErrorCode
from qanat.security.authorization import CLUSTER, Operation, ResourceKind
from qanat.wire.kafka.layouts import ZERO_UUID
from qanat.wire.kafka.messages import (
    create_partitions,
    create_topics,
    delete_topics,
    describe_topic_partitions,
    metadata,
)

_DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_MESSAGE = "Authorization failed."


def authorize_metadata(request: metadata.MetadataRequest, access: AccessCheck) -> Verdict:
    is_all = request.topics is None or (access.version == 0 and not request.topics)
    denied: list[metadata.MetadataRequestTopic] = []
    if not is_all:
        kept, denied = sifted(request.topics or (), lambda topic: _may_see(topic, access))
        # An empty list means all of them in version 0 only; there, a name that cannot be stands for none.
        request.topics = kept or ([metadata.MetadataRequestTopic(name="")] if access.version == 0 else [])

    def complete(response: metadata.MetadataResponse) -> metadata.MetadataResponse:
        if is_all:
            response.topics = [one for one in response.topics if access.may_topic(Operation.DESCRIBE, one.name or "")]
        elif not kept:
            response.topics = []
        response.topics += [_hidden(topic) for topic in denied]
        if request.include_topic_authorized_operations:
            for topic in response.topics:
                if not topic.error_code and topic.name:
                    topic.topic_authorized_operations = access.bits(ResourceKind.TOPIC, topic.name, ON_TOPICS)
        if request.include_cluster_authorized_operations:
            may = access.may_cluster(Operation.DESCRIBE)
            response.cluster_authorized_operations = (
                access.bits(ResourceKind.CLUSTER, CLUSTER.name, ON_CLUSTER) if may else 0
            )
        return response

    return Granted(complete)


def _may_see(topic: metadata.MetadataRequestTopic, access: AccessCheck) -> bool:
    """Whether a topic may be described and, where asking for it would create it, created."""
    name = access.topic_name(topic.name, topic.topic_id)
    if name is None:
        return True
    if not access.may_topic(Operation.DESCRIBE, name):
        return False
    is_there = name in access.broker.metadata.image.topics
    return is_there or _may_create(name, access) or not access.broker.settings.auto_create_topics_enable


def _may_create(name: str, access: AccessCheck) -> bool:
    return access.may_cluster(Operation.CREATE) or access.may_topic(Operation.CREATE, name)


def _hidden(topic: metadata.MetadataRequestTopic) -> metadata.MetadataResponseTopic:
    if topic.topic_id != ZERO_UUID:
        return metadata.MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, None, topic.topic_id)
    return metadata.MetadataResponseTopic(_DENIED, topic.name)


def authorize_describe_topic_partitions(
    request: describe_topic_partitions.DescribeTopicPartitionsRequest, access: AccessCheck
) -> Verdict:
    if not request.topics:
        names = [describe_topic_partitions.TopicRequest(name) for name in access.broker.metadata.image.topics]
        request.topics = [one for one in names if access.may_topic(Operation.DESCRIBE, one.name)]
        denied: list[describe_topic_partitions.TopicRequest] = []
    else:
        request.topics, denied = sifted(request.topics, lambda topic: access.may_topic(Operation.DESCRIBE, topic.name))
    is_nothing = not request.topics
    if is_nothing:
        request.topics = [describe_topic_partitions.TopicRequest("")]

    def complete(
        response: describe_topic_partitions.DescribeTopicPartitionsResponse,
    ) -> describe_topic_partitions.DescribeTopicPartitionsResponse:
        if is_nothing:
            response.topics = []
        for topic in response.topics:
            if not topic.error_code and topic.name:
                topic.topic_authorized_operations = access.bits(ResourceKind.TOPIC, topic.name, ON_TOPICS)
        response.topics += [
            describe_topic_partitions.DescribeTopicPartitionsResponseTopic(_DENIED, topic.name) for topic in denied
        ]
        return response

    return Granted(complete)


def authorize_create_topics(request: create_topics.CreateTopicsRequest, access: AccessCheck) -> Verdict:
    kept, denied = sifted(request.topics, lambda topic: _may_create(topic.name, access))
    request.topics = kept

    def complete(response: create_topics.CreateTopicsResponse) -> create_topics.CreateTopicsResponse:
        for topic in response.topics:
            if not topic.error_code and not access.may_topic(Operation.DESCRIBE_CONFIGS, topic.name):
                topic.topic_config_error_code = _DENIED
                topic.num_partitions = topic.replication_factor = -1
                topic.configs = []
        response.topics += [
            create_topics.CreatableTopicResult(name, error_code=_DENIED, error_message=_MESSAGE)
            for name in dict.fromkeys(topic.name for topic in denied)
        ]
        return response

    return Granted(complete)


def authorize_create_partitions(request: create_partitions.CreatePartitionsRequest, access: AccessCheck) -> Verdict:
    kept, denied = sifted(request.topics, lambda topic: access.may_topic(Operation.ALTER, topic.name))
    request.topics = kept

    def complete(response: create_partitions.CreatePartitionsResponse) -> create_partitions.CreatePartitionsResponse:
        response.results += [
            create_partitions.CreatePartitionsTopicResult(topic.name, _DENIED, _MESSAGE) for topic in denied
        ]
        return response

    return Granted(complete) if denied else GRANTED


def authorize_delete_topics(request: delete_topics.DeleteTopicsRequest, access: AccessCheck) -> Verdict:
    """A topic that was named by its id keeps its name to itself where it may not be described."""
    by_name, denied_names = sifted(request.topic_names, lambda name: access.may_topic(Operation.DELETE, name))
    kept, denied = sifted(request.topics, lambda topic: _may_delete(topic, access))
    request.topic_names, request.topics = by_name, kept

    def complete(response: delete_topics.DeleteTopicsResponse) -> delete_topics.DeleteTopicsResponse:
        response.responses += [
            delete_topics.DeletableTopicResult(name, ZERO_UUID, _DENIED, _MESSAGE) for name in denied_names
        ]
        response.responses += [
            delete_topics.DeletableTopicResult(topic.name, topic.topic_id, _DENIED, _MESSAGE) for topic in denied
        ]
        return response

    return Granted(complete) if denied or denied_names else GRANTED


def _may_delete(topic: delete_topics.DeleteTopicState, access: AccessCheck) -> bool:
    name = access.topic_name(topic.name, topic.topic_id)
    return name is None or access.may_topic(Operation.DELETE, name)
