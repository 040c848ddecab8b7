"""Who leads instead (KIP-951): a client that asked the wrong broker is told where to go.

Otherwise it asks around for metadata, in growing pauses, until somebody tells it what we know already.
"""

from __future__ import annotations

from typing import NamedTuple

from qanat.broker.broker import Broker
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import TopicId
from qanat.wire.kafka.messages.produce import LeaderIdAndEpoch, NodeEndpoint, ProduceResponse

ASKED_ELSEWHERE = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
"""Errors beside which the leader is named."""


class NewLeader(NamedTuple):
    """A broker, in which epoch it leads, and where clients find it."""

    node_id: int
    epoch: int
    host: str
    port: int
    rack: str | None


def new_leader(broker: Broker, topic: str, topic_id: bytes, number: int) -> NewLeader | None:
    """Who leads a partition, named by `topic`, or by id without it; None where we know of nobody."""
    image = broker.metadata.image
    known = image.topics.get(topic) if topic else image.topics_by_id.get(TopicId.of(topic_id))
    if known is None or number not in range(len(known.partitions)):
        return None
    state = image.state(known, number)
    registration = image.brokers.get(state.leader)
    if registration is None or not registration.listeners:
        return None
    listener = registration.listeners[0]
    return NewLeader(state.leader, state.leader_epoch, listener.host, listener.port, registration.rack)


def name_leaders(response: ProduceResponse, broker: Broker) -> None:
    """Say of partitions that were to be written to here, and that others lead, who does."""
    endpoints: dict[int, NodeEndpoint] = {}
    for topic in response.responses:
        for part in topic.partition_responses:
            if part.error_code not in ASKED_ELSEWHERE:
                continue
            if (other := new_leader(broker, topic.name, topic.topic_id, part.index)) is not None:
                part.current_leader = LeaderIdAndEpoch(other.node_id, other.epoch)
                endpoints[other.node_id] = NodeEndpoint(other.node_id, other.host, other.port, other.rack)
    response.node_endpoints = list(endpoints.values())
