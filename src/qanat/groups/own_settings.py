"""What can be set for a single group, under Kafka's names; whatever is not set follows the broker's settings.

Kept in the metadata store and changed while groups are at work (`broker.settings.group_settings`).
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from msgspec import Meta

from qanat.groups.settings import GroupSettings, SmallPositive
from qanat.model.settings import NotNegative, Settings

IsolationLevel = Literal["read_uncommitted", "read_committed"]


class OwnSettings(Settings, frozen=True):
    """Settings of one group; defaults are those of a broker that was told nothing."""

    consumer_session_timeout_ms: SmallPositive = 45_000
    """A member of a consumer group of the new protocol that is silent for so long is out."""
    consumer_heartbeat_interval_ms: SmallPositive = 5_000
    """How often members of a consumer group of the new protocol are told to send a heartbeat."""
    share_session_timeout_ms: SmallPositive = 45_000
    """A member of a share group that is silent for so long is out."""
    share_heartbeat_interval_ms: SmallPositive = 5_000
    """How often members of a share group are told to send a heartbeat."""
    share_record_lock_duration_ms: SmallPositive = 30_000
    """How long a record is held for the member that it was given to."""
    share_auto_offset_reset: str = "latest"
    """Where a share group begins in a partition that is new to it: latest, earliest, or by_duration:PT1H, …"""
    share_isolation_level: IsolationLevel = "read_uncommitted"
    """Whether records of transactions are given to members before their transactions are decided."""
    share_delivery_count_limit: Annotated[int, Meta(ge=2, le=10)] = 5
    """How often a record is given to members before it is given up."""
    share_partition_max_record_locks: Annotated[int, Meta(ge=100, le=10_000)] = 2_000
    """Most records of one partition that are not done and were given out."""
    share_redelivery_backoff_ms: NotNegative = 0
    """How long a record is kept back after its first failed delivery; twice as long after every further one."""
    share_redelivery_backoff_max_ms: NotNegative = 60_000
    """A record is never kept back for longer than this between two deliveries."""
    errors_deadletterqueue_topic_name: str = ""
    """Topic that gets the records which are rejected, or given up after their last delivery; empty for none."""

    @classmethod
    def like(cls, settings: GroupSettings) -> Self:
        """Those of a group for which nothing was set."""
        return cls(
            consumer_session_timeout_ms=settings.group_consumer_session_timeout_ms,
            consumer_heartbeat_interval_ms=settings.group_consumer_heartbeat_interval_ms,
            share_session_timeout_ms=settings.group_share_session_timeout_ms,
            share_heartbeat_interval_ms=settings.group_share_heartbeat_interval_ms,
            share_record_lock_duration_ms=settings.group_share_record_lock_duration_ms,
            share_delivery_count_limit=settings.group_share_delivery_count_limit,
            share_partition_max_record_locks=settings.group_share_partition_max_record_locks,
            share_redelivery_backoff_ms=settings.group_share_redelivery_backoff_ms,
            share_redelivery_backoff_max_ms=settings.group_share_redelivery_backoff_max_ms,
        )
