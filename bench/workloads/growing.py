"""A cold reader with a concurrent writer, and more and more partitions and clients."""

from __future__ import annotations

from bench.workloads.bounds import PAR
from bench.workloads.form import Figure, Growth, Workload, at_most, cpu, rate
from bench.workloads.settings import BATCHED, KIB, PACED, READING_ON, UNFLUSHED

CATCH_UP = Workload(
    "catch-up",
    "catch up on 1 KB from a cold disk during 5,000 messages/s",
    "catchup",
    KIB,
    400_000,
    (
        rate(goal=PAR),
        Figure("p99 of acknowledgements meanwhile", "ms", lambda sample: sample.found["ack_p99_ms"], goal=at_most(PAR)),
        cpu(),
    ),
    {**PACED, **{f"consumer.{name}": value for name, value in READING_ON.items()}},
    UNFLUSHED,
    rate=5_000,
    is_cold=True,
)

_RECORDS, _IN_FLIGHT = 100, 5
"""Of one request, and requests that one client has unanswered: the latter is the default of Kafka's own producer."""


def _partitions(count: int, messages: int) -> Workload:
    return Workload(
        f"partitions-{count}",
        f"produce 100 B to {count:,} partition{'s' if count > 1 else ''} in turn",
        "produce",
        100,
        messages,
        (rate(goal=PAR), cpu()),
        {**BATCHED, "driver.partitions": str(count)},
        {**UNFLUSHED, "partitions": str(count)},
        is_kept=True,
    )


def _clients(count: int, records: int = _RECORDS, in_flight: int = _IN_FLIGHT, messages: int = 2_000_000) -> Workload:
    return Workload(
        f"clients-{count}",
        f"produce {records} × 100 B a request from {count:,} client{'s' if count > 1 else ''}",
        "clients",
        100,
        messages,
        (rate(goal=PAR), cpu()),
        {"driver.clients": str(count), "driver.records": str(records), "driver.in_flight": str(in_flight)},
        UNFLUSHED,
    )


PARTITIONS = Growth(
    "partitions",
    "partition",
    (_partitions(1, 500_000), _partitions(100, 500_000), _partitions(1_000, 500_000), _partitions(5_000, 200_000)),
    needs_new_servers=True,
)
CLIENTS = Growth("clients", "client", (_clients(1), _clients(100), _clients(1_000)))
