"""Requests about groups of the new protocol (KIP-848): many topics subscribed to, partitions held, groups described."""

from __future__ import annotations

from collections.abc import Iterator

from bench.stalls.cases import Case, unknown_names
from bench.stalls.crowd import Crowd, group
from qanat.wire.kafka.messages import consumer_group_describe, consumer_group_heartbeat
from qanat.wire.kafka.registry import ApiKey

_GROUP = "consuming"
_MEMBER = "AAAAAAAAAAAAAAAAAAAAAA"
_SECOND = "AAAAAAAAAAAAAAAAAAAAAQ"
_REBALANCE_MS = 60_000


def of_consumers(crowd: Crowd) -> Iterator[Case]:
    yield Case(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        "joins with all topics",
        lambda rows: _joining(_MEMBER, crowd.topic_names()[:rows]),
        len(crowd.topic_names()),
    )
    yield Case(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        "joins with unknown topics",
        lambda rows: _joining(_SECOND, unknown_names(rows)),
    )
    yield Case(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        "joins with all topics by pattern",
        lambda rows: consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
            "matching",
            _MEMBER,
            0,
            rebalance_timeout_ms=_REBALANCE_MS,
            subscribed_topic_regex=".*",
            topic_partitions=[],
        ),
        1,
    )
    yield Case(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        "holds very many partitions",
        lambda rows: consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
            _GROUP,
            _MEMBER,
            1,
            topic_partitions=[consumer_group_heartbeat.RequestTopicPartitions(bytes(15) + b"1", list(range(rows)))],
        ),
    )
    yield Case(
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        "a group that reads everything",
        lambda rows: consumer_group_describe.ConsumerGroupDescribeRequest([_GROUP]),
        1,
    )
    yield Case(
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        "known groups of the other kind",
        lambda rows: consumer_group_describe.ConsumerGroupDescribeRequest([group(number) for number in range(rows)]),
        crowd.groups,
    )
    yield Case(
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        "unknown groups",
        lambda rows: consumer_group_describe.ConsumerGroupDescribeRequest(unknown_names(rows)),
    )


def _joining(member: str, topics: list[str]) -> consumer_group_heartbeat.ConsumerGroupHeartbeatRequest:
    return consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
        _GROUP,
        member,
        0,
        rebalance_timeout_ms=_REBALANCE_MS,
        subscribed_topic_names=topics,
        topic_partitions=[],
    )
