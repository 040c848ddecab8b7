"""Sizes and rates over HTTP: of a topic with its partitions, of the cluster with its brokers (`traffic` has them)."""

from __future__ import annotations

import msgspec

from qanat.servers.http.admin.rate_history import RateAt
from qanat.servers.http.admin.topic_admin import TrafficView, traffic_of
from qanat.servers.http.exchange import Exchange
from qanat.servers.http.operations import Operation


class PartitionTraffic(msgspec.Struct):
    """A partition as its leader has it; None where it did not answer."""

    partition: int
    earliest_offset: int | None
    latest_offset: int | None
    size_bytes: int | None


class TopicTrafficView(msgspec.Struct):
    """Sizes and rates of a topic."""

    name: str
    collected_ms: int | None
    traffic: TrafficView
    partitions: list[PartitionTraffic]
    history: list[RateAt]
    """The last hour; empty where nobody has written."""


class BrokerTraffic(msgspec.Struct):
    """What a broker carries."""

    node_id: int
    leaders: int
    replicas: int
    size_bytes: int
    total_bytes: int | None
    """Of the volume with its data; None where that is unknown."""
    usable_bytes: int | None


class ClusterTraffic(msgspec.Struct):
    """Sizes and rates of the cluster."""

    collected_ms: int | None
    topics: int
    partitions: int
    without_leader: int
    under_replicated: int
    """Partitions whose in-sync replicas are fewer than their replicas."""
    records: int
    size_bytes: int
    records_per_s: float
    bytes_per_s: float
    brokers: list[BrokerTraffic]
    last_hour: list[RateAt]
    last_day: list[RateAt]


async def topic_traffic(exchange: Exchange) -> TopicTrafficView:
    context = exchange.context
    topic = await context.topics.find(exchange.caller, exchange.path["topic"], may_create=False)
    await context.traffic.ready()
    lags = await context.lags.by_topic(context.gateway.group_filter(exchange.caller))
    rows = []
    for number in range(len(topic.partitions)):
        found = context.traffic.of_partition(topic.name, number)
        rows.append(PartitionTraffic(number, *((None, None, None) if found is None else found)))
    ring = context.traffic.of_topic(topic.name).history
    return TopicTrafficView(
        topic.name,
        context.traffic.collected_ms,
        traffic_of(exchange, topic.name, lags),
        rows,
        [] if ring is None else ring.points(),
    )


async def cluster_traffic(exchange: Exchange) -> ClusterTraffic:
    context = exchange.context
    context.gateway.require_describe(exchange.caller, "the traffic of the cluster")
    await context.traffic.ready()
    traffic = context.traffic
    brokers = [
        BrokerTraffic(node_id, one.leaders, one.replicas, one.size_bytes, one.total_bytes, one.usable_bytes)
        for node_id, one in sorted(traffic.brokers.items())
    ]
    hour, day = traffic.history()
    return ClusterTraffic(
        traffic.collected_ms,
        len(context.broker.metadata.image.topics),
        traffic.partitions,
        traffic.without_leader,
        traffic.under_replicated,
        traffic.total.records,
        traffic.total.size_bytes,
        round(traffic.total.records_per_s, 3),
        round(traffic.total.bytes_per_s, 3),
        brokers,
        hour.points(),
        day.points(),
    )


OPERATIONS = (
    Operation(
        "GET",
        "/api/v1/topics/{topic}/traffic",
        topic_traffic,
        "Sizes and rates of a topic, now and over the last hour",
        "topics",
        answer=TopicTrafficView,
    ),
    Operation(
        "GET",
        "/api/v1/cluster/traffic",
        cluster_traffic,
        "Sizes and rates of the cluster, now and over the last day",
        "cluster",
        answer=ClusterTraffic,
    ),
)
