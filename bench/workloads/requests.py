"""Requests of one record: pipelined, sixty-four at a time, one at a time; and end to end."""

from __future__ import annotations

from collections.abc import Mapping

from bench.workloads.bounds import FLUSHED_GOAL_RATE, FLUSHED_GOAL_TIME, PAR, cpu_bounds
from bench.workloads.form import Workload, cpu, percentile, rate
from bench.workloads.settings import AT_ONCE, FLUSHED, ONE_BY_ONE, PACED, UNFLUSHED

CONCURRENCY = 64
SIZE = 100


def single(
    name: str,
    what: str,
    count: int,
    required: float,
    topic: Mapping[str, str],
    *,
    goal: float | None = None,
    in_flight: int | None = None,
    is_quick: bool = False,
) -> Workload:
    """Up to a thousand in flight on one connection, by default."""
    figures = (rate(required, goal), cpu(*cpu_bounds(topic)))
    client = ONE_BY_ONE if in_flight is None else {**ONE_BY_ONE, "max.in.flight": str(in_flight)}
    return Workload(name, what, "produce", SIZE, count, figures, client, topic, is_quick=is_quick)


def sync(
    name: str,
    what: str,
    count: int,
    p50: float | None,
    p99: float | None,
    topic: Mapping[str, str],
    *,
    goals: tuple[float | None, float | None] = (None, None),
    is_quick: bool = False,
    turns: int = 1,
) -> Workload:
    figures = (percentile("p50", p50, goals[0]), percentile("p99", p99, goals[1]), cpu())
    return Workload(name, what, "sync", SIZE, count, figures, AT_ONCE, topic, is_quick=is_quick, turns=turns)


def _end_to_end(
    name: str,
    what: str,
    count: int,
    per_second: int,
    topic: Mapping[str, str],
    p99: float | None,
    goal: float,
    *,
    is_quick: bool = False,
) -> Workload:
    figures = (percentile("p50"), percentile("p99", p99, goal), percentile("p999"), cpu())
    return Workload(name, what, "endtoend", SIZE, count, figures, PACED, topic, per_second, is_quick=is_quick)


_EACH_FROM_A_CLIENT = {"driver.clients": str(CONCURRENCY), "driver.records": "1", "driver.in_flight": "1"}

REQUESTS = (
    single("single", "single-record requests, pipelined", 50_000, 2.0, UNFLUSHED, goal=3.0, is_quick=True),
    single(
        "single-64",
        "single-record requests, 64 in flight",
        40_000,
        2.0,
        UNFLUSHED,
        goal=3.0,
        in_flight=CONCURRENCY,
        is_quick=True,
    ),
    Workload(
        "single-64-clients",
        "single-record requests, one from each of 64 clients",
        "clients",
        SIZE,
        40_000,
        (rate(goal=PAR), cpu(goal=PAR)),
        _EACH_FROM_A_CLIENT,
        UNFLUSHED,
    ),
    sync("sync", "synchronous produce", 10_000, 1.0, 0.6, UNFLUSHED, goals=(0.8, 0.3), is_quick=True, turns=3),
)
END_TO_END = (
    _end_to_end("end-to-end", "end to end at 1,000 messages/s", 4_000, 1_000, UNFLUSHED, 0.6, 0.3, is_quick=True),
    _end_to_end("end-to-end-50k", "end to end at 50,000 messages/s", 120_000, 50_000, UNFLUSHED, None, PAR),
)
FLUSHED_REQUESTS = (
    single("fsync-single", "single-record requests, pipelined, fsync", 10_000, 1.0, FLUSHED, goal=FLUSHED_GOAL_RATE),
    single(
        "fsync-single-64",
        "single-record requests, 64 in flight, fsync",
        10_000,
        1.0,
        FLUSHED,
        goal=FLUSHED_GOAL_RATE,
        in_flight=CONCURRENCY,
    ),
    sync(
        "fsync-sync",
        "synchronous produce, fsync",
        3_000,
        1.0,
        1.0,
        FLUSHED,
        goals=(FLUSHED_GOAL_TIME, FLUSHED_GOAL_TIME),
        is_quick=True,
        turns=3,
    ),
    _end_to_end(
        "fsync-end-to-end", "end to end at 1,000 messages/s, fsync", 2_500, 1_000, FLUSHED, PAR, FLUSHED_GOAL_TIME
    ),
)
