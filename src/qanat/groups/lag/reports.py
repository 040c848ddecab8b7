"""Reports of lag: what brokers tell each other and the command line, as JSON in a setting (`api.configs.group_lag`)."""

from __future__ import annotations

from msgspec import Struct


class PartitionLag(Struct, frozen=True):
    """The lag of a group in one partition."""

    topic: str
    partition: int
    committed: int
    end: int
    records: int
    seconds: float
    """How long the first record that the group has not read has waited."""
    is_exact: bool
    """False where that record is older than what the collector has seen: it has waited at least so long."""
    state: str


class TopicLag(Struct, frozen=True):
    """The lag of a group in one topic: records of all partitions, seconds of the slowest."""

    topic: str
    records: int
    seconds: float


class GroupLag(Struct, frozen=True):
    """The lag of a group."""

    group: str
    type: str
    records: int
    seconds: float
    is_exact: bool
    state: str
    """`ok`, `warn`, `rewound`, `stalled` or `stopped`: of its partitions, the worst."""
    topics: list[TopicLag]


class LagReport(Struct, frozen=True):
    """The groups of one coordinator."""

    node_id: int
    collected_ms: int
    """When, in milliseconds since 1970."""
    interval_ms: int
    groups: list[GroupLag]


class HistoryPoint(Struct, frozen=True, array_like=True):
    """The lag of a group at one time."""

    at_ms: int
    records: int
    seconds: float


class GroupLagDetails(Struct, frozen=True):
    """One group, with its partitions and its last day."""

    collected_ms: int
    lag: GroupLag
    partitions: list[PartitionLag]
    history: list[HistoryPoint]
