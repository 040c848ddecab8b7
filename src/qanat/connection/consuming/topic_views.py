"""Topics with their ids, and partitions with their leaders and leader epochs, from Metadata."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from qanat.connection.cluster import Cluster
from qanat.connection.deadline import Deadline
from qanat.model.error_codes import ErrorCode
from qanat.wire.kafka.layouts import ZERO_UUID
from qanat.wire.kafka.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from qanat.wire.kafka.registry import ApiKey

_BY_ID_SINCE = 12
"""The first version of Metadata in which a topic may be asked for by its id."""


class TopicView(msgspec.Struct, frozen=True):
    """A topic; `error_code` where it cannot be used."""

    name: str
    topic_id: bytes
    error_code: int
    leaders: Mapping[int, tuple[int, int]]
    """Leader and leader epoch by partition; the leader is -1 where there is none."""


async def view_topics(cluster: Cluster, names: Collection[str], deadline: Deadline) -> dict[str, TopicView]:
    """What a broker knows of these topics, once, without retries; those that are not there are left out."""
    response = await cluster.metadata(sorted(names), deadline)
    return {topic.name: topic for topic in _views(response) if topic.name}


async def names_of(cluster: Cluster, topic_ids: Collection[bytes], deadline: Deadline) -> dict[bytes, str]:
    """The names of topics; those that the broker does not know (yet) are left out."""
    topics = [MetadataRequestTopic(topic_id, None) for topic_id in sorted(topic_ids)]
    link = await cluster.any_link(deadline)
    if link.version_of(ApiKey.METADATA) < _BY_ID_SINCE:
        response = await cluster.metadata(None, deadline)
    else:
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        response = await link.call(ApiKey.METADATA, request, deadline)
    return {topic.topic_id: topic.name for topic in _views(response) if topic.name and topic.topic_id in topic_ids}


def _views(response: MetadataResponse) -> list[TopicView]:
    return [
        TopicView(
            topic.name or "",
            topic.topic_id or ZERO_UUID,
            topic.error_code,
            {one.partition_index: (one.leader_id, one.leader_epoch) for one in topic.partitions},
        )
        for topic in response.topics
        if topic.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    ]
