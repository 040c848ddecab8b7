"""What the group coordinator may be told, under Kafka's names."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from qanat.model.settings import NotNegative, Positive, Settings

_MINUTE_MS = 60_000
_INT32_MAX = 2**31 - 1

SmallPositive = Annotated[int, Meta(ge=1, le=_INT32_MAX)]
"""What fits the 32 bits that a record has for it."""

MigrationPolicy = Literal["bidirectional", "upgrade", "downgrade", "disabled"]

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * _MINUTE_MS
"""How long a member that never saw a generation may wait for its first; Kafka has no setting for it either."""


class GroupSettings(Settings, frozen=True):
    """A coordinator's settings; defaults are Kafka's."""

    group_min_session_timeout_ms: SmallPositive = 6_000
    """Shortest session timeout a member may ask for."""
    group_max_session_timeout_ms: SmallPositive = 30 * _MINUTE_MS
    """Longest session timeout a member may ask for."""
    group_initial_rebalance_delay_ms: NotNegative = 3_000
    """How long an empty group waits for more members before its first rebalance."""
    group_max_size: Positive = _INT32_MAX
    """Most members that one group may have."""
    group_consumer_assignors: str = "uniform,range"
    """Installed partition assignors that groups may ask for, the default first, separated by commas."""
    group_consumer_session_timeout_ms: SmallPositive = 45_000
    """A member of the new protocol that is silent for so long is out."""
    group_consumer_heartbeat_interval_ms: SmallPositive = 5_000
    """How often members of the new protocol are told to send a heartbeat."""
    group_consumer_max_size: Positive = _INT32_MAX
    """Most members that one group of the new protocol may have."""
    group_consumer_migration_policy: MigrationPolicy = "bidirectional"
    """Whether groups may pass between the classic and the new protocol while they have members."""
    offset_metadata_max_bytes: Annotated[int, Meta(ge=0, le=10_000)] = 4_096
    """Longest note that a client may commit with an offset."""
    offsets_retention_minutes: Positive = 7 * 24 * 60
    """Offsets are kept this long after the group lost its last member, or its consumers the topic."""
    offsets_retention_check_interval_ms: Positive = 10 * _MINUTE_MS
    """How often expired offsets and groups are looked for."""
    offsets_topic_num_partitions: Positive = 50
    """Partitions of __consumer_offsets; must not change once there are groups."""

    def __post_init__(self) -> None:
        if self.group_consumer_heartbeat_interval_ms >= self.group_consumer_session_timeout_ms:
            raise ValueError(
                f"group.consumer.heartbeat.interval.ms ({self.group_consumer_heartbeat_interval_ms}) must be below "
                f"group.consumer.session.timeout.ms ({self.group_consumer_session_timeout_ms})"
            )
        if self.group_min_session_timeout_ms > self.group_max_session_timeout_ms:
            raise ValueError(
                f"group.min.session.timeout.ms ({self.group_min_session_timeout_ms}) must not be above "
                f"group.max.session.timeout.ms ({self.group_max_session_timeout_ms})"
            )

    @property
    def assignor_names(self) -> list[str]:
        """The assignors in their order, the default first."""
        return [name.strip() for name in self.group_consumer_assignors.split(",") if name.strip()]

    @property
    def may_upgrade(self) -> bool:
        return self.group_consumer_migration_policy in ("bidirectional", "upgrade")

    @property
    def may_downgrade(self) -> bool:
        return self.group_consumer_migration_policy in ("bidirectional", "downgrade")

    @property
    def offsets_retention_ms(self) -> int:
        return self.offsets_retention_minutes * _MINUTE_MS
