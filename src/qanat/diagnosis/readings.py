"""Readings: what one broker has counted, as counters that only grow; two of them make a window.

Brokers tell them each other and the command line, as JSON in a setting (`api.configs.broker_load`).
"""

from __future__ import annotations

from msgspec import Struct


class ApiReading(Struct, frozen=True):
    """The requests of one API."""

    requests: int
    seconds: float
    """From their start until their answers were ready, waiting included."""
    loop_seconds: float
    """The part in which the event loop worked on them."""
    request_bytes: int
    response_bytes: int


class TimedReading(Struct, frozen=True):
    """Work that was done so many times, and took so long in all."""

    count: int = 0
    seconds: float = 0.0


class WaitReading(Struct, frozen=True):
    """What requests waited for: their number, summed over time, in seconds."""

    disk: float = 0.0
    """Appends whose records this broker has not flushed."""
    followers: float = 0.0
    """Appends that are flushed here and not at every in-sync follower."""
    cold_reads: float = 0.0
    """Reads of records that were not in memory."""
    store: float = 0.0
    """Changes of metadata that are not committed yet."""
    paused: float = 0.0
    """Connections that are not read because unanswered requests hold too much memory."""


class PartitionReading(Struct, frozen=True):
    """A partition that this broker leads and that was written to."""

    topic: str
    partition: int
    of: int
    """How many partitions its topic has."""
    bytes: int
    """Written since the broker was first looked at."""
    records: int
    """The same in records, those of markers included."""


class GroupReading(Struct, frozen=True):
    """The lag of a group that this broker coordinates."""

    group: str
    state: str
    records: int
    seconds: float


class BrokerReading(Struct, frozen=True):
    """One broker, since it was first looked at; nothing in it goes down except lag."""

    node_id: int
    since_s: float
    """When it was first looked at, by its steady clock: another one is another watch, which compares with no other."""
    at_s: float
    """When this was read, by the same clock."""
    loop_cpu_s: float
    """CPU time of the event loop's thread."""
    loop_starved_s: float
    """How long that thread was ready to run and had no core."""
    late: TimedReading
    """Looks, and by how much they came late: so long does an event wait for the loop."""
    waits: WaitReading
    flushes: TimedReading
    cold_reads: int
    commits: TimedReading
    """Changes of metadata in the store."""
    apis: dict[str, ApiReading]
    written_records: int
    """In partitions that this broker leads."""
    partitions: list[PartitionReading]
    """Those that were written to most."""
    behind: dict[int, float]
    """By follower: appends that wait for this one alone, summed over time, in seconds."""
    paused_clients: dict[str, float]
    """By client id: its connections that are not read, summed over time, in seconds."""
    groups: list[GroupReading]
    """Those that are furthest behind."""


ClusterReading = dict[int, BrokerReading]
"""The readings of all brokers that answer, by node id."""
