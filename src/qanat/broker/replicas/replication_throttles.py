"""Replication throttles, under Kafka's names (KIP-73): replicas catch up at a limited rate, so that live traffic has
room.

A replica that is not in sync is throttled where its topic's `leader.replication.throttled.replicas` names the leader,
or `follower.replication.throttled.replicas` the follower; each broker's `leader.` and
`follower.replication.throttled.rate` is the limit. A replica that a reassignment adds and that neither setting names is
limited to `reassignment.throttled.rate`.

Rule: a replica in sync is never throttled, or acknowledgements would wait.
"""

from __future__ import annotations

from collections.abc import Callable

from qanat.broker.replicas.partition import Partition
from qanat.broker.settings.current_settings import CurrentSettings
from qanat.model.ids import TopicPartition
from qanat.replication.throttle import UNLIMITED, Throttle

LEADERS = "leader.replication.throttled.replicas"
FOLLOWERS = "follower.replication.throttled.replicas"


class ReplicationThrottles:
    """What one broker sends to replicas that catch up, and fetches for its own."""

    def __init__(self, settings: CurrentSettings, steady_ms: Callable[[], int]) -> None:
        self._settings = settings
        self._steady_ms = steady_ms
        self._leading, self._following, self._adding = Throttle(), Throttle(), Throttle()

    # As the leader

    def is_leading_throttled(self, partition: Partition, follower: int) -> bool:
        """Whether the bytes that a follower gets of a partition count."""
        if self._settings.broker.leader_replication_throttled_rate == UNLIMITED:
            return False
        is_in_sync = partition.leader is None or follower in partition.leader.in_sync
        return not is_in_sync and self._is_named(LEADERS, partition.at)

    def is_leading_exceeded(self) -> bool:
        rate = self._settings.broker.leader_replication_throttled_rate
        return self._leading.is_exceeded(rate, self._steady_ms())

    def note_sent(self, size: int) -> None:
        """Throttled followers were sent so many bytes."""
        self._leading.spend(size, self._settings.broker.leader_replication_throttled_rate, self._steady_ms())

    # As a follower that is not in sync

    def must_wait(self, at: TopicPartition) -> bool:
        """Whether a replica that is behind must wait before it fetches more."""
        if (found := self._following_throttle(at)) is None:
            return False
        throttle, rate = found
        return throttle.is_exceeded(rate, self._steady_ms())

    def note_received(self, at: TopicPartition, size: int) -> None:
        """A replica that is behind has fetched so many bytes."""
        if (found := self._following_throttle(at)) is not None:
            throttle, rate = found
            throttle.spend(size, rate, self._steady_ms())

    def _following_throttle(self, at: TopicPartition) -> tuple[Throttle, int] | None:
        settings = self._settings.broker
        if settings.follower_replication_throttled_rate != UNLIMITED and self._is_named(FOLLOWERS, at):
            return self._following, settings.follower_replication_throttled_rate
        if settings.reassignment_throttled_rate != UNLIMITED and self._is_added(at):
            return self._adding, settings.reassignment_throttled_rate
        return None

    def _is_added(self, at: TopicPartition) -> bool:
        image = self._settings.image
        topic = image.topics.get(at.topic)
        if topic is None or at.partition >= len(topic.partitions):
            return False
        return self._settings.node_id in image.state(topic, at.partition).adding

    def _is_named(self, setting: str, at: TopicPartition) -> bool:
        named = self._settings.image.overrides(at.topic).get(setting, "").strip()
        return named == "*" or f"{at.partition}:{self._settings.node_id}" in (one.strip() for one in named.split(","))
