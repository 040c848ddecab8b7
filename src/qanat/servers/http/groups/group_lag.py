"""Lag of groups over HTTP: by partition, and over the last day (`lag_reports` reads it)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from qanat.groups.lag.commit_window import LagState, worst
from qanat.servers.http.operations import Operation
from qanat.servers.http.problems import Problem

if TYPE_CHECKING:
    from qanat.servers.http.exchange import Exchange


class LagOfPartition(msgspec.Struct):
    """A group's lag in a partition."""

    topic: str
    partition: int
    committed_offset: int
    latest_offset: int
    lag: int
    time_lag_s: float
    """How long the first record that the group has not read has waited."""
    is_exact: bool
    """False where it has waited for longer than its coordinator has looked."""
    state: str
    """`ok`, `warn`, `rewound`, `stalled` or `stopped`."""


class LagAt(msgspec.Struct):
    """A group's lag at one time."""

    at_ms: int
    lag: int
    time_lag_s: float


class LagOfGroup(msgspec.Struct):
    """A group's lag, now and over the last day."""

    group: str
    type: str
    state: str
    """Of its partitions, the worst."""
    collected_ms: int
    """When, in milliseconds since 1970."""
    lag: int
    time_lag_s: float
    partitions: list[LagOfPartition]
    history: list[LagAt]
    """Every pass of the last hour, and one a minute before; empty where the caller may not see all its topics."""


async def describe_lag(exchange: Exchange) -> LagOfGroup:
    group, gateway = exchange.path["group"], exchange.context.gateway
    gateway.require_describe_group(exchange.caller, group)
    found = await exchange.context.lags.details(group)
    if found is None:
        raise Problem(
            404,
            f"there is no lag of group {group}: it does not exist, has committed nothing, "
            "or group.lag.interval.ms is 0",
        )
    rows = [
        LagOfPartition(
            one.topic, one.partition, one.committed, one.end, one.records, one.seconds, one.is_exact, one.state
        )
        for one in found.partitions
        if gateway.may_describe_topic(exchange.caller, one.topic)
    ]
    is_whole = len(rows) == len(found.partitions)
    return LagOfGroup(
        group,
        found.lag.type,
        worst([LagState(row.state) for row in rows]).value,
        found.collected_ms,
        sum(row.lag for row in rows),
        max((row.time_lag_s for row in rows), default=0.0),
        rows,
        [LagAt(one.at_ms, one.records, one.seconds) for one in found.history] if is_whole else [],
    )


OPERATIONS = (
    Operation(
        "GET",
        "/api/v1/groups/{group}/lag",
        describe_lag,
        "A group's lag in records and seconds, now and over the last day",
        "groups",
        answer=LagOfGroup,
    ),
)
