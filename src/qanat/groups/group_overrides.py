"""Settings of a single group, under Kafka's names; an unset one follows the broker's settings.

Stored in the metadata store and changed while groups are active (`broker.settings.group_settings`).
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from msgspec import Meta

from qanat.groups.settings import GroupSettings, SmallPositive
from qanat.model.settings import NotNegative, Settings

IsolationLevel = Literal["read_uncommitted", "read_committed"]


class GroupOverrides(Settings, frozen=True):
    """Settings of one group; defaults are those of an unconfigured broker."""

    consumer_session_timeout_ms: SmallPositive = 45_000
    """A member of a consumer group of the new protocol without a heartbeat for so long is removed."""
    consumer_heartbeat_interval_ms: SmallPositive = 5_000
    """Heartbeat interval of members of a consumer group of the new protocol."""
    share_session_timeout_ms: SmallPositive = 45_000
    """A member of a share group without a heartbeat for so long is removed."""
    share_heartbeat_interval_ms: SmallPositive = 5_000
    """Heartbeat interval of members of a share group."""
    share_record_lock_duration_ms: SmallPositive = 30_000
    """How long a record is locked for the member that acquired it."""
    share_auto_offset_reset: str = "latest"
    """Where a share group starts in a new partition: latest, earliest, or by_duration:PT1H, …"""
    share_isolation_level: IsolationLevel = "read_uncommitted"
    """Whether records of transactions are delivered before their transactions end."""
    share_delivery_count_limit: Annotated[int, Meta(ge=2, le=10)] = 5
    """How often a record is delivered to members before it is archived."""
    share_partition_max_record_locks: Annotated[int, Meta(ge=100, le=10_000)] = 2_000
    """Most records of one partition that were delivered and are not finished."""
    share_redelivery_backoff_ms: NotNegative = 0
    """How long a record is delayed after its first failed delivery; twice as long after every further one."""
    share_redelivery_backoff_max_ms: NotNegative = 60_000
    """A record is never delayed for longer than this between two deliveries."""
    errors_deadletterqueue_topic_name: str = ""
    """Dead-letter topic for records that are rejected, or archived after their last delivery; empty for none."""

    @classmethod
    def like(cls, settings: GroupSettings) -> Self:
        """The settings of a group without its own."""
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
