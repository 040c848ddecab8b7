"""The workloads, in sizes that Python clients manage, and their figures.

The client settings are librdkafka's and apply to systems that speak Kafka; the docstrings of the other drivers name
theirs. Counts are per round; with a sync for every acknowledgement they are smaller.
"""

from __future__ import annotations

from dataclasses import replace

from bench.workloads import AT_ONCE, BATCHED, FLUSHED, KIB, UNFLUSHED, Figure, Workload

RATE = Figure("", "messages/s", lambda sample: sample.messages_per_second)
CPU = Figure("server CPU per message", "µs", lambda sample: sample.cpu_us_per_message)
P50 = Figure("p50", "ms", lambda sample: sample.found["p50_ms"])
P99 = Figure("p99", "ms", lambda sample: sample.found["p99_ms"])
START = "start"
_DURABLE_SHARE = 0.2


def _produce(name: str, what: str, size: int, count: int) -> Workload:
    return Workload(name, what, "produce", size, count, (RATE, CPU), BATCHED, UNFLUSHED)


def _consume(name: str, what: str, size: int, count: int) -> Workload:
    return Workload(name, what, "consume", size, count, (RATE, CPU), {}, UNFLUSHED, is_filled=True)


WORKLOADS = (
    _produce("produce-100", "publish 100 B, pipelined", 100, 60_000),
    Workload("sync", "publish 100 B, one at a time", "sync", 100, 2_000, (P50, P99, CPU), AT_ONCE, UNFLUSHED),
    Workload(
        "end-to-end", "end to end at 1,000 messages/s", "endtoend", 100, 4_000, (P50, P99, CPU), {}, UNFLUSHED, 1_000
    ),
    _consume("consume-100", "consume 100 B", 100, 100_000),
    _produce("produce-1k", "publish 1 KB, pipelined", KIB, 30_000),
    _consume("consume-1k", "consume 1 KB", KIB, 50_000),
)
NAMES = (*(one.name for one in WORKLOADS), START)


def durable() -> list[Workload]:
    """The same with a sync for every acknowledgement; reading has none."""
    return [
        replace(one, count=one.count if one.rate else int(one.count * _DURABLE_SHARE), topic=FLUSHED)
        for one in WORKLOADS
        if not one.is_filled
    ]
