"""Settings of a consumer, under Kafka's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from qanat.client.settings import ClientSettings
from qanat.connection.consuming.chosen_membership import GroupProtocol
from qanat.connection.consuming.group_place import PlaceTerms
from qanat.connection.consuming.partition_cursor import Reset
from qanat.model.errors import InvalidSettingError


class ConsumerSettings(ClientSettings, frozen=True, kw_only=True):
    """What a consumer can be told."""

    group_id: str | None = None
    group_protocol: GroupProtocol = "auto"
    """`consumer` (KIP-848), `classic`, or `auto`: the first where broker and group have it."""
    group_instance_id: str | None = None
    """The name of a static member: its partitions wait for it while it restarts."""
    group_remote_assignor: str | None = None
    partition_assignment_strategy: str = "range,cooperative-sticky"
    """Assignors of the classic protocol; only `cooperative-sticky` alone is cooperative."""
    client_rack: str = ""
    auto_offset_reset: Literal["earliest", "latest", "error", "none", "smallest", "largest"] = "latest"
    """Where to begin without a committed offset, or with one that is gone."""
    enable_auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000
    isolation_level: Literal["read_committed", "read_uncommitted"] = "read_uncommitted"
    max_poll_records: int = 500
    max_poll_interval_ms: int = 300_000
    """How long a revocation waits for records in hand, and when a handler counts as late. It causes no rebalance."""
    session_timeout_ms: int = 30_000
    heartbeat_interval_ms: int = 3_000
    fetch_min_bytes: int = 1
    fetch_max_wait_ms: int = 500
    fetch_max_bytes: int = 16 * 1024 * 1024
    max_partition_fetch_bytes: int = 1024 * 1024
    queued_max_bytes: int = 64 * 1024 * 1024
    """How much is fetched ahead, of all partitions together."""
    allow_missing_topics: bool = False
    """Whether to wait for topics that are not there yet, instead of an error."""
    key_deserializer: object = None
    value_deserializer: object = None

    ALIASES: ClassVar[Mapping[str, str]] = {
        "group": "group_id",
        "fetch_wait_max_ms": "fetch_max_wait_ms",
        "fetch_message_max_bytes": "max_partition_fetch_bytes",
    }
    IGNORED: ClassVar[frozenset[str]] = ClientSettings.IGNORED | {
        "check_crcs",
        "enable_auto_offset_store",
        "enable_partition_eof",
        "allow_auto_create_topics",
        "exclude_internal_topics",
        "queued_min_messages",
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.group_id == "":
            raise InvalidSettingError("group is empty: name one, or leave it out to read all partitions alone")

    @property
    def reset(self) -> Reset:
        names = {"none": "error", "smallest": "earliest", "largest": "latest"}
        return Reset(names.get(self.auto_offset_reset, self.auto_offset_reset))

    @property
    def is_committed_only(self) -> bool:
        return self.isolation_level == "read_committed"

    @property
    def place(self) -> PlaceTerms:
        return PlaceTerms(
            session_ms=self.session_timeout_ms,
            rebalance_ms=self.max_poll_interval_ms,
            heartbeat_s=self.heartbeat_interval_ms / 1000,
            instance_id=self.group_instance_id,
            rack_id=self.client_rack or None,
            assignors=tuple(one.strip() for one in self.partition_assignment_strategy.split(",") if one.strip()),
            server_assignor=self.group_remote_assignor,
        )


def checked_topics(topics: tuple[str, ...]) -> tuple[str, ...]:
    """The topics of a consumer; raises where there is none to read."""
    if not topics:
        raise InvalidSettingError(
            'a consumer without topics reads nothing: name one, as in Consumer(servers, "orders")'
        )
    return topics
