"""What is measured: each workload with its client settings, its topic's settings, and what is required of it.

Settings are librdkafka's and the topic's own words; what is not named is left at its default, on both sides.
Counts are per round; `--quick` takes a part of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from qanat.app.bench.figures import Required

NEVER = str(2**63 - 1)
UNFLUSHED = {"flush.messages": NEVER}
"""Kafka's default: when to write is left to the kernel."""
FLUSHED = {"flush.messages": "1"}
"""Qanat's default: an acknowledged record is on disk."""
KIB = 1024

_WIDE = {"queue.buffering.max.messages": "1000000", "queue.buffering.max.kbytes": "1048576"}
BATCHED = {
    **_WIDE,
    "acks": "all",
    "linger.ms": "5",
    "batch.num.messages": "10000",
    "delivery.report.only.error": "true",
}
ONE_BY_ONE = {
    **_WIDE,
    "acks": "all",
    "linger.ms": "0",
    "batch.num.messages": "1",
    "max.in.flight": "1000",
    "delivery.report.only.error": "true",
}
AT_ONCE = {"acks": "all", "linger.ms": "0"}
PACED = {"producer.acks": "all", "producer.linger.ms": "0"}
_QUICK_SHARE = 0.3


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of a workload on one side."""

    found: Mapping[str, float]
    broker_cpu_seconds: float

    @property
    def messages_per_second(self) -> float:
        return self.found["count"] / self.found["seconds"]

    @property
    def cpu_us_per_message(self) -> float:
        return self.broker_cpu_seconds * 1e6 / self.found["count"]


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of a sample, and what its ratio to Kafka's must be."""

    what: str
    unit: str
    of: Callable[[Sample], float]
    required: Required | None = None


@dataclass(frozen=True, slots=True)
class Workload:
    """One way to use a broker."""

    name: str
    what: str
    mode: str
    size: int
    count: int
    figures: tuple[Figure, ...]
    client: Mapping[str, str]
    topic: Mapping[str, str]
    rate: int = 0
    is_filled: bool = False
    """Whether the topic is filled once, before the rounds, instead of being new in each."""

    def quick(self) -> Workload:
        return replace(self, count=int(self.count * _QUICK_SHARE))


def _at_least(bound: float) -> Required:
    return Required("ratio", ">=", bound)


def _at_most(bound: float) -> Required:
    return Required("ratio", "<=", bound)


def _rate(bound: float) -> Figure:
    return Figure("", "messages/s", lambda sample: sample.messages_per_second, _at_least(bound))


def _percentile(name: str, bound: float | None) -> Figure:
    required = None if bound is None else _at_most(bound)
    return Figure(name, "ms", lambda sample: sample.found[f"{name}_ms"], required)


def _cpu(bound: float | None) -> Figure:
    required = None if bound is None else _at_most(bound)
    return Figure("broker CPU per message", "µs", lambda sample: sample.cpu_us_per_message, required)


def produce(name: str, what: str, size: int, count: int, required: float, topic: Mapping[str, str]) -> Workload:
    cpu = _cpu(0.7 if topic["flush.messages"] == NEVER else 1.0)
    return Workload(name, what, "produce", size, count, (_rate(required), cpu), BATCHED, topic)


def _consume(name: str, what: str, size: int, count: int) -> Workload:
    return Workload(name, what, "consume", size, count, (_rate(1.0), _cpu(0.7)), {}, UNFLUSHED, is_filled=True)


def single(name: str, what: str, count: int, required: float, topic: Mapping[str, str]) -> Workload:
    cpu = _cpu(0.7 if topic["flush.messages"] == NEVER else 1.0)
    return Workload(name, what, "produce", 100, count, (_rate(required), cpu), ONE_BY_ONE, topic)


def sync(name: str, what: str, count: int, p50: float, p99: float, topic: Mapping[str, str]) -> Workload:
    figures = (_percentile("p50", p50), _percentile("p99", p99), _cpu(None))
    return Workload(name, what, "sync", 100, count, figures, AT_ONCE, topic)


_END_TO_END = (_percentile("p50", None), _percentile("p99", None), _percentile("p999", None), _cpu(None))

WORKLOADS = (
    produce("produce-100", "produce 100 B in batches", 100, 2_000_000, 1.0, UNFLUSHED),
    produce("produce-1k", "produce 1 KB in batches", KIB, 500_000, 1.5, UNFLUSHED),
    _consume("consume-100", "consume 100 B", 100, 2_000_000),
    _consume("consume-1k", "consume 1 KB", KIB, 800_000),
    single("single", "single-record requests, pipelined", 50_000, 2.0, UNFLUSHED),
    sync("sync", "synchronous produce", 10_000, 1.0, 0.6, UNFLUSHED),
    Workload(
        "end-to-end", "end to end at 1,000 messages/s", "endtoend", 100, 5_000, _END_TO_END, PACED, UNFLUSHED, 1_000
    ),
    produce("fsync-100", "produce 100 B in batches, fsync", 100, 1_000_000, 1.0, FLUSHED),
    produce("fsync-1k", "produce 1 KB in batches, fsync", KIB, 300_000, 1.0, FLUSHED),
    single("fsync-single", "single-record requests, pipelined, fsync", 10_000, 1.0, FLUSHED),
    sync("fsync-sync", "synchronous produce, fsync", 3_000, 1.0, 1.0, FLUSHED),
)

START = "start"
START_REQUIRED = _at_most(0.2)
IDLE_MEMORY_REQUIRED = _at_most(0.25)
NAMES = (*(workload.name for workload in WORKLOADS), START)
