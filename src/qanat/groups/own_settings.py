"""What can be set for a single group, under Kafka's names; whatever is not set follows the broker's settings.

Kept in the metadata store and changed while groups are at work (`broker.group_configs`).
"""

from __future__ import annotations

from typing import Literal

from qanat.groups.settings import SmallPositive
from qanat.model.settings import Settings

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
