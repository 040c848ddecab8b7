"""Producers of a partition as its leader describes them (DescribeProducers, KIP-664)."""

from __future__ import annotations

from qanat.app.client.arguments import WrongArgumentError
from qanat.connection.cluster import Cluster
from qanat.connection.deadline import Deadline
from qanat.connection.faults import check, refused
from qanat.connection.link import Link
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import TopicPartition
from qanat.wire.kafka.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ProducerState,
    TopicRequest,
)
from qanat.wire.kafka.registry import ApiKey


async def describe_producers(cluster: Cluster, at: TopicPartition, deadline: Deadline) -> list[ProducerState]:
    link = await leader_link(cluster, at, deadline)
    request = DescribeProducersRequest([TopicRequest(at.topic, [at.partition])])
    response: DescribeProducersResponse = await link.call(ApiKey.DESCRIBE_PRODUCERS, request, deadline)
    (row,) = response.topics[0].partitions
    check(f"producers of {at}", row.error_code, row.error_message)
    return row.active_producers


async def leader_link(cluster: Cluster, at: TopicPartition, deadline: Deadline) -> Link:
    view = await cluster.topic(at.topic, deadline)
    if at.partition not in view.leaders:
        raise refused(f"topic {at.topic} has no partition {at.partition}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return await cluster.node_link(view.leaders[at.partition], deadline)


def parse_partition(text: str) -> TopicPartition:
    topic, _, number = text.rpartition(":")
    if not topic or not number.isdecimal():
        raise WrongArgumentError(f"{text!r} should read topic:partition")
    return TopicPartition(topic, int(number))
