"""Readings for tests: a healthy broker, and what is different about it."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from qanat.diagnosis.diagnosis import Diagnosis, judge
from qanat.diagnosis.readings import (
    ApiReading,
    BrokerReading,
    ClusterReading,
    GroupReading,
    PartitionReading,
    TimedReading,
    WaitReading,
)

SECONDS = 10.0
START = BrokerReading(
    node_id=1,
    since_s=0.0,
    at_s=100.0,
    loop_cpu_s=50.0,
    loop_starved_s=1.0,
    late=TimedReading(1000, 1.0),
    waits=WaitReading(),
    flushes=TimedReading(100, 0.2),
    cold_reads=0,
    commits=TimedReading(3, 0.05),
    apis={},
    written_records=1000,
    partitions=[],
    behind={},
    paused_clients={},
    groups=[],
)
"""Any broker, when it is first read."""
HEALTHY = replace(
    START,
    at_s=START.at_s + SECONDS,
    loop_cpu_s=52.0,
    loop_starved_s=1.1,
    late=TimedReading(1200, 1.1),
    waits=WaitReading(disk=3.0),
    flushes=TimedReading(1100, 2.2),
    commits=TimedReading(5, 0.08),
    apis={
        "PRODUCE": ApiReading(2000, 4.0, 0.4, 2_000_000, 100_000),
        "FETCH": ApiReading(1000, 9.0, 0.2, 100_000, 2_000_000),
    },
    written_records=21_000,
    partitions=[PartitionReading("orders", number, 6, 300_000, 3_000) for number in range(6)],
    groups=[GroupReading("billing", "ok", 20, 0.1)],
)
"""The same broker ten seconds later: two thousand batches of ten records, flushed in 2 ms each."""


def cluster(*brokers: BrokerReading) -> ClusterReading:
    """Brokers 1, 2 …"""
    return {number: replace(one, node_id=number) for number, one in enumerate(brokers, 1)}


def diagnosis(*after: BrokerReading, before: dict[str, Any] | None = None) -> Diagnosis:
    """What the brokers show ten seconds after `START`, some of which may be different as well."""
    began = replace(START, **(before or {}))
    return judge(cluster(*(began for _ in after)), cluster(*after))


def causes(found: Diagnosis) -> list[tuple[str, str]]:
    return [(one.cause, one.subject) for one in found.findings]
