"""Workloads, the samples of their runs, and the figures of samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from qanat.app.bench.figures import Required

_QUICK_SHARE = 0.3
_GB = 1e9


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

    def cpu_seconds_per_gb(self, size: int) -> float:
        return self.broker_cpu_seconds / (self.found["count"] * size / _GB)


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of a sample, with requirement and goal of its ratio to Kafka's."""

    what: str
    unit: str
    of: Callable[[Sample], float]
    required: Required | None = None
    goal: Required | None = None


@dataclass(frozen=True, slots=True)
class Workload:
    """One load on a broker."""

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
    filling: Mapping[str, str] | None = None
    """Settings of the client that fills it, besides `BATCHED`."""
    is_kept: bool = False
    """Whether the topic is made once, before the rounds, and written to in each."""
    is_cold: bool = False
    """Whether the topic is filled anew in each round, and then dropped from the page cache."""
    is_quick: bool = False
    """Whether a quick run measures it too."""
    turns: int = 1
    """How often it is measured in a round: more where a sample is short and its spread large."""

    def quick(self) -> Workload:
        """The same with fewer messages; synchronous ones are so few that a p99 of a part is that of the first ones."""
        return self if self.mode == "sync" else replace(self, count=int(self.count * _QUICK_SHARE))


@dataclass(frozen=True, slots=True)
class Growth:
    """The same with more and more of something: workloads that take turns, and each one's throughput by the first's."""

    name: str
    of: str
    workloads: tuple[Workload, ...]
    needs_new_servers: bool = False
    """Whether its data would disturb others."""

    def quick(self) -> Growth:
        return replace(self, workloads=tuple(one.quick() for one in self.workloads))


def at_least(bound: float | None) -> Required | None:
    return None if bound is None else Required("ratio", ">=", bound)


def at_most(bound: float | None) -> Required | None:
    return None if bound is None else Required("ratio", "<=", bound)


def rate(required: float | None = None, goal: float | None = None) -> Figure:
    return Figure("", "messages/s", lambda sample: sample.messages_per_second, at_least(required), at_least(goal))


def percentile(name: str, required: float | None = None, goal: float | None = None) -> Figure:
    return Figure(name, "ms", lambda sample: sample.found[f"{name}_ms"], at_most(required), at_most(goal))


def cpu(required: float | None = None, goal: float | None = None) -> Figure:
    what = "broker CPU per message"
    return Figure(what, "µs", lambda sample: sample.cpu_us_per_message, at_most(required), at_most(goal))


def cpu_per_gb(size: int, required: float | None = None, goal: float | None = None) -> Figure:
    what = "broker CPU per GB out"
    return Figure(what, "s", lambda sample: sample.cpu_seconds_per_gb(size), at_most(required), at_most(goal))
