"""Leader hints (KIP-951): an answer names the current leader to a client that asked the wrong broker.

Without it the client requests metadata, with growing pauses, until it learns what this broker knows already.
"""

from __future__ import annotations

from typing import NamedTuple

from qanat.api.caller import Caller
from qanat.api.endpoints import endpoint_of
from qanat.broker.broker import Broker
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import TopicId
from qanat.wire.kafka.messages.produce import LeaderIdAndEpoch, NodeEndpoint, ProduceResponse

NOT_LEADER_ERRORS = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
"""Errors with which the answer names the leader."""


class CurrentLeader(NamedTuple):
    """A leader, its leader epoch, and its address for the caller."""

    node_id: int
    epoch: int
    host: str
    port: int
    rack: str | None


def current_leader(
    broker: Broker, caller: Caller | None, topic: str, topic_id: bytes, number: int
) -> CurrentLeader | None:
    """The leader of a partition, by topic name, or by id without one; None where none is known."""
    image = broker.metadata.image
    known = image.topics.get(topic) if topic else image.topics_by_id.get(TopicId.of(topic_id))
    if known is None or number not in range(len(known.partitions)):
        return None
    state = image.state(known, number)
    registration = image.brokers.get(state.leader)
    listener = None if registration is None else endpoint_of(registration, caller)
    if registration is None or listener is None:
        return None
    return CurrentLeader(state.leader, state.leader_epoch, listener.host, listener.port, registration.rack)


def add_leader_hints(response: ProduceResponse, broker: Broker, caller: Caller | None = None) -> None:
    """Add the current leader to partitions that another broker leads, as far as `caller` can reach it."""
    endpoints: dict[int, NodeEndpoint] = {}
    for topic in response.responses:
        for part in topic.partition_responses:
            if part.error_code not in NOT_LEADER_ERRORS:
                continue
            if (other := current_leader(broker, caller, topic.name, topic.topic_id, part.index)) is not None:
                part.current_leader = LeaderIdAndEpoch(other.node_id, other.epoch)
                endpoints[other.node_id] = NodeEndpoint(other.node_id, other.host, other.port, other.rack)
    response.node_endpoints = list(endpoints.values())
