"""Copies that are brought up to date at a limited rate, under Kafka's names (KIP-73), so that live traffic has room.

A replica that is not in sync is throttled where its topic's `leader.replication.throttled.replicas` names the leader,
or `follower.replication.throttled.replicas` the follower; how fast it may go is each broker's
`leader.` and `follower.replication.throttled.rate`. A replica that a reassignment adds and that nobody has named goes
at `reassignment.throttled.rate`, which is limited unless somebody says otherwise.

Rule: who is in sync is never held back, or acknowledgements would wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.broker.replicas.partition import Partition
from qanat.model.ids import TopicPartition
from qanat.replication.throttle import UNLIMITED, Throttle

if TYPE_CHECKING:
    from qanat.broker.broker import Broker

LEADERS = "leader.replication.throttled.replicas"
FOLLOWERS = "follower.replication.throttled.replicas"


class ReplicationThrottles:
    """What one broker sends to replicas that catch up, and takes for its own."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._leading, self._following, self._adding = Throttle(), Throttle(), Throttle()

    # As the leader

    def is_leading_throttled(self, partition: Partition, follower: int) -> bool:
        """Whether what a follower is sent of a partition counts."""
        if self._broker.settings.leader_replication_throttled_rate == UNLIMITED:
            return False
        is_in_sync = partition.leader is None or follower in partition.leader.in_sync
        return not is_in_sync and self._is_named(LEADERS, partition.at)

    def is_leading_exceeded(self) -> bool:
        rate = self._broker.settings.leader_replication_throttled_rate
        return self._leading.is_exceeded(rate, self._broker.steady_ms())

    def sent(self, size: int) -> None:
        """Followers that are throttled were sent so much."""
        self._leading.spend(size, self._broker.settings.leader_replication_throttled_rate, self._broker.steady_ms())

    # As a follower that is not in sync

    def holds_back(self, at: TopicPartition) -> bool:
        """Whether a copy that is behind must wait before it asks for more."""
        if (found := self._following_throttle(at)) is None:
            return False
        throttle, rate = found
        return throttle.is_exceeded(rate, self._broker.steady_ms())

    def took(self, at: TopicPartition, size: int) -> None:
        """A copy that is behind has taken so much."""
        if (found := self._following_throttle(at)) is not None:
            throttle, rate = found
            throttle.spend(size, rate, self._broker.steady_ms())

    def _following_throttle(self, at: TopicPartition) -> tuple[Throttle, int] | None:
        settings = self._broker.settings
        if settings.follower_replication_throttled_rate != UNLIMITED and self._is_named(FOLLOWERS, at):
            return self._following, settings.follower_replication_throttled_rate
        if settings.reassignment_throttled_rate != UNLIMITED and self._is_added(at):
            return self._adding, settings.reassignment_throttled_rate
        return None

    def _is_added(self, at: TopicPartition) -> bool:
        image = self._broker.metadata.image
        topic = image.topics.get(at.topic)
        if topic is None or at.partition >= len(topic.partitions):
            return False
        return self._broker.node_id in image.state(topic, at.partition).adding

    def _is_named(self, setting: str, at: TopicPartition) -> bool:
        named = self._broker.metadata.image.overrides(at.topic).get(setting, "").strip()
        return named == "*" or f"{at.partition}:{self._broker.node_id}" in (one.strip() for one in named.split(","))
