"""Topics that a pipeline writes: missing ones are created before it starts."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from qanat.connection.cluster import Cluster
from qanat.connection.deadline import Deadline
from qanat.connection.faults import check
from qanat.model.error_codes import ErrorCode
from qanat.spark.options.options import Access
from qanat.spark.reads.offset_lookup import Lookups
from qanat.wire.kafka.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from qanat.wire.kafka.registry import ApiKey

_BROKERS_DEFAULT = -1


def make_missing(access: Access, topics: Mapping[str, int | None], compacted: Collection[str] = ()) -> None:
    """Create missing topics with so many partitions, or the broker's default; existing ones stay unchanged."""

    async def make(cluster: Cluster, deadline: Deadline) -> None:
        there = await cluster.metadata(list(topics), deadline)
        missing = [one.name for one in there.topics if one.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        wanted = [
            CreatableTopic(
                name,
                topics[name] or _BROKERS_DEFAULT,
                _BROKERS_DEFAULT,
                configs=[CreatableTopicConfig("cleanup.policy", "compact")] if name in compacted else [],
            )
            for name in missing
            if name
        ]
        if not wanted:
            return
        request = CreateTopicsRequest(wanted, timeout_ms=deadline.left_ms)
        response: CreateTopicsResponse = await cluster.call_controller(ApiKey.CREATE_TOPICS, request, deadline)
        for result in response.topics:
            if result.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
                check(f"cannot create topic {result.name}", result.error_code, result.error_message)
        for topic in wanted:
            await cluster.created_topic(topic.name, deadline)

    with Lookups(access) as lookups:
        lookups.run(make)
