"""What a cluster does: rates of its brokers and topics, lag of its groups, from two readings."""

from __future__ import annotations

from msgspec import Struct

from qanat.diagnosis.readings import ClusterReading
from qanat.diagnosis.window import PRODUCE, BrokerWindow, windows_of


class BrokerActivity(Struct, frozen=True):
    """A broker."""

    node_id: int
    requests_per_s: float
    in_bytes_per_s: float
    out_bytes_per_s: float
    produce_ms: float | None
    """How long a Produce request took on average; None where there was none."""
    loop_share: float
    """How much of a core its event loop used."""
    late_ms: float
    partitions_written: int


class TopicActivity(Struct, frozen=True):
    """A topic that is written to."""

    topic: str
    partitions: int
    records_per_s: float
    bytes_per_s: float


class GroupActivity(Struct, frozen=True):
    """A group, as its coordinator found it last."""

    group: str
    state: str
    records: int
    seconds: float
    records_per_s: float
    """By how much its lag grows; negative where it catches up."""


class Activity(Struct, frozen=True):
    """A cluster."""

    seconds: float
    requests_per_s: float
    in_bytes_per_s: float
    out_bytes_per_s: float
    brokers: list[BrokerActivity]
    silent: list[int]
    """Brokers that did not answer, or not twice."""
    topics: list[TopicActivity]
    """The busiest first."""
    groups: list[GroupActivity]
    """Those that are furthest behind first."""


def activity_of(before: ClusterReading, after: ClusterReading, brokers: list[int]) -> Activity:
    """What happened between two readings."""
    windows = windows_of(before, after)
    rows = [_broker(one) for one in windows]
    return Activity(
        max((one.seconds for one in windows), default=0.0),
        sum(one.requests_per_s for one in rows),
        sum(one.in_bytes_per_s for one in rows),
        sum(one.out_bytes_per_s for one in rows),
        rows,
        sorted({*brokers, *after} - {one.node_id for one in rows}),
        _topics(windows),
        _groups(windows),
    )


def _broker(window: BrokerWindow) -> BrokerActivity:
    apis, produce = window.apis, window.apis.get(PRODUCE)
    return BrokerActivity(
        window.node_id,
        window.requests / window.seconds,
        sum(api.request_bytes for api in apis.values()) / window.seconds,
        sum(api.response_bytes for api in apis.values()) / window.seconds,
        None if produce is None or not produce.requests else 1000 * produce.seconds / produce.requests,
        window.loop_share,
        window.late_s * 1000,
        len(window.partitions),
    )


def _topics(windows: list[BrokerWindow]) -> list[TopicActivity]:
    found: dict[str, TopicActivity] = {}
    for window in windows:
        for one in window.partitions:
            seen = found.get(one.topic, TopicActivity(one.topic, one.of, 0.0, 0.0))
            found[one.topic] = TopicActivity(
                one.topic,
                one.of,
                seen.records_per_s + one.records / window.seconds,
                seen.bytes_per_s + one.bytes / window.seconds,
            )
    return sorted(found.values(), key=lambda one: (-one.bytes_per_s, one.topic))


def _groups(windows: list[BrokerWindow]) -> list[GroupActivity]:
    rows = [
        GroupActivity(
            after.group,
            after.state,
            after.records,
            after.seconds,
            (after.records - before.records) / window.seconds,
        )
        for window in windows
        for before, after in window.groups
    ]
    return sorted(rows, key=lambda one: (-one.seconds, -one.records, one.group))
