"""Settings of the group coordinator, under Kafka's names."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from qanat.model.settings import NotNegative, Positive, Settings

_MINUTE_MS = 60_000
_INT32_MAX = 2**31 - 1

SmallPositive = Annotated[int, Meta(ge=1, le=_INT32_MAX)]
"""A number that fits the 32 bits of its record field."""

LockDuration = Annotated[int, Meta(ge=1_000, le=3_600_000)]

MigrationPolicy = Literal["bidirectional", "upgrade", "downgrade", "disabled"]

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * _MINUTE_MS
"""How long a new member may wait for its first generation; Kafka has no setting for it either."""


class GroupSettings(Settings, frozen=True):
    """A coordinator's settings; defaults are Kafka's."""

    group_min_session_timeout_ms: SmallPositive = 6_000
    """Shortest session timeout that a member may request."""
    group_max_session_timeout_ms: SmallPositive = 30 * _MINUTE_MS
    """Longest session timeout that a member may request."""
    group_initial_rebalance_delay_ms: NotNegative = 3_000
    """How long an empty group waits for more members before its first rebalance."""
    group_max_size: Positive = _INT32_MAX
    """Largest number of members of one group."""
    group_consumer_assignors: str = "uniform,range"
    """Installed partition assignors that groups may select, the default first, separated by commas."""
    group_consumer_session_timeout_ms: SmallPositive = 45_000
    """A member of the new protocol without a heartbeat for so long is removed."""
    group_consumer_heartbeat_interval_ms: SmallPositive = 5_000
    """Heartbeat interval of members of the new protocol."""
    group_consumer_min_session_timeout_ms: SmallPositive = 45_000
    """Shortest session timeout that can be set for a single group of the new protocol."""
    group_consumer_max_session_timeout_ms: SmallPositive = _MINUTE_MS
    """Longest session timeout that can be set for a single group of the new protocol."""
    group_consumer_min_heartbeat_interval_ms: SmallPositive = 5_000
    """Shortest heartbeat interval that can be set for a single group of the new protocol."""
    group_consumer_max_heartbeat_interval_ms: SmallPositive = 15_000
    """Longest heartbeat interval that can be set for a single group of the new protocol."""
    group_consumer_max_size: Positive = _INT32_MAX
    """Largest number of members of one group of the new protocol."""
    group_consumer_migration_policy: MigrationPolicy = "bidirectional"
    """Whether groups with members may change between the classic and the new protocol."""
    group_share_session_timeout_ms: SmallPositive = 45_000
    """A member of a share group without a heartbeat for so long is removed."""
    group_share_min_session_timeout_ms: SmallPositive = 45_000
    """Shortest session timeout that can be set for a single share group."""
    group_share_max_session_timeout_ms: SmallPositive = _MINUTE_MS
    """Longest session timeout that can be set for a single share group."""
    group_share_heartbeat_interval_ms: SmallPositive = 5_000
    """Heartbeat interval of members of share groups."""
    group_share_min_heartbeat_interval_ms: SmallPositive = 5_000
    """Shortest heartbeat interval that can be set for a single share group."""
    group_share_max_heartbeat_interval_ms: SmallPositive = 15_000
    """Longest heartbeat interval that can be set for a single share group."""
    group_share_max_size: Annotated[int, Meta(ge=1, le=1_000)] = 200
    """Largest number of members of one share group."""
    group_share_record_lock_duration_ms: LockDuration = 30_000
    """How long a record is locked for the member of a share group that acquired it."""
    group_share_min_record_lock_duration_ms: Annotated[int, Meta(ge=1_000, le=30_000)] = 15_000
    """Shortest lock duration that can be set for a single share group."""
    group_share_max_record_lock_duration_ms: Annotated[int, Meta(ge=30_000, le=3_600_000)] = 60_000
    """Longest lock duration that can be set for a single share group."""
    group_share_delivery_count_limit: Annotated[int, Meta(ge=2, le=10)] = 5
    """How often a record is delivered to members of a share group before it is archived."""
    group_share_partition_max_record_locks: Annotated[int, Meta(ge=100, le=10_000)] = 2_000
    """Most records of one partition that are locked for members of one share group at a time."""
    group_share_redelivery_backoff_ms: NotNegative = 0
    """How long a record is delayed after its first failed delivery; twice as long after every further one."""
    group_share_redelivery_backoff_max_ms: NotNegative = _MINUTE_MS
    """A record is never delayed for longer than this between two deliveries."""
    group_share_max_share_sessions: Positive = 2_000
    """Largest number of share sessions on one broker."""
    share_coordinator_state_topic_num_partitions: Positive = 50
    """Partitions of __share_group_state; must not change once there are share groups."""
    share_coordinator_state_topic_replication_factor: Positive = 3
    """Replicas of __share_group_state, as far as there are brokers; more are added as brokers join."""
    share_coordinator_snapshot_update_records_per_snapshot: Annotated[int, Meta(ge=0, le=500)] = 500
    """After so many updates a snapshot of a share group's partition is written."""
    offset_metadata_max_bytes: Annotated[int, Meta(ge=0, le=10_000)] = 4_096
    """Longest note that a client may commit with an offset."""
    offsets_retention_minutes: Positive = 7 * 24 * 60
    """Offsets are kept this long after the group lost its last member, or its consumers the topic."""
    offsets_retention_check_interval_ms: Positive = 10 * _MINUTE_MS
    """How often expired offsets and groups are removed."""
    offsets_topic_num_partitions: Positive = 50
    """Partitions of __consumer_offsets; must not change once there are groups."""
    offsets_topic_replication_factor: Positive = 3
    """Replicas of __consumer_offsets, as far as there are brokers; more are added as brokers join."""

    def __post_init__(self) -> None:
        _check_session(
            "group.consumer", self.group_consumer_heartbeat_interval_ms, self.group_consumer_session_timeout_ms
        )
        _check_session("group.share", self.group_share_heartbeat_interval_ms, self.group_share_session_timeout_ms)
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


def _check_session(of: str, heartbeat_ms: int, session_ms: int) -> None:
    if heartbeat_ms >= session_ms:
        raise ValueError(
            f"{of}.heartbeat.interval.ms ({heartbeat_ms}) must be below {of}.session.timeout.ms ({session_ms})"
        )
