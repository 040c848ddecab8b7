"""The parts of a report: their programs, arguments and time limits.

A part of several steps is several runs of its program, the most important first: an interrupted run leaves the results
of earlier ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.report.headline import LINES
from bench.workloads import GROWTHS, START, WORKLOADS

FEWEST_ROUNDS = 5
_MINUTE = 60.0
_QUICK_BROKER = ("produce-100", "produce-1k", "consume-100", "consume-1k", "single", "sync", "end-to-end", "fsync-100")
_BEGINNING = 0.75
"""Share of the remaining time after which a program begins no other workload, where it has such an option."""
_LIMITED = ("produce-1k", "consume-1k", "single", "sync")


def _broker_steps() -> list[list[str]]:
    """Headline workloads first, then the start, then all others."""
    headlines = {line.figure for line in LINES if line.part == "broker"}
    judged = [one.name for one in WORKLOADS if one.name in headlines]
    rest = [one.name for one in WORKLOADS if one.name not in judged]
    flushed = [name for name in rest if name.startswith("fsync-")]
    growths = [one.name for one in GROWTHS]
    steps = [judged, [START], growths, flushed, [name for name in rest if name not in flushed]]
    return [_bench(names) for names in steps if names]


def _bench(names: Sequence[str]) -> list[str]:
    return ["bench", "--only", ",".join(names)]


@dataclass(frozen=True, slots=True)
class Part:
    """One program of the report."""

    name: str
    title: str
    steps: Sequence[Sequence[str]]
    """Arguments of `python`, for each run."""
    quick_steps: Sequence[Sequence[str]]
    seconds: float
    """Time limit of all its runs."""
    quick_seconds: float
    takes_rounds: bool = True
    """Whether it takes the number of rounds."""
    takes_minutes: bool = False
    """Whether it takes the minutes after which no other workload begins."""

    def commands(self, *, is_quick: bool, rounds: int) -> list[list[str]]:
        counted = ["--rounds", str(rounds)] if self.takes_rounds else []
        return [["-m", *step, *counted] for step in (self.quick_steps if is_quick else self.steps)]

    def in_time(self, command: Sequence[str], left_s: float) -> list[str]:
        """The same command with the remaining time, where it takes that."""
        return [*command, *(["--minutes", f"{left_s * _BEGINNING / _MINUTE:.2f}"] if self.takes_minutes else [])]

    def budget_s(self, *, is_quick: bool) -> float:
        return self.quick_seconds if is_quick else self.seconds


PARTS = (
    Part(
        "broker",
        "One broker and Apache Kafka",
        _broker_steps(),
        [[*_bench(_QUICK_BROKER), "--quick"]],
        22 * _MINUTE,
        210.0,
        takes_minutes=True,
    ),
    Part(
        "three",
        "Three brokers and three of Apache Kafka",
        (("bench.three",),),
        (("bench.three", "--quick", "--only", "100,fsync-100"),),
        8 * _MINUTE,
        100.0,
    ),
    Part(
        "failover",
        "Loss of one of three brokers",
        (("bench.failover", "--tries", "10", "--stops", "5"),),
        (("bench.failover", "--quick", "--kafka-tries", "1", "--only", "kill"),),
        6 * _MINUTE,
        80.0,
        takes_rounds=False,
    ),
    Part(
        "protected",
        "Protected: TLS, SASL and ACLs on both sides",
        (("bench.protected",),),
        (("bench.protected", "--quick"),),
        6 * _MINUTE,
        105.0,
        takes_minutes=True,
    ),
    Part(
        "peers",
        "Systems that do not speak Kafka",
        (("bench.peers", "--seconds", "360"),),
        (("bench.peers", "--quick", "--seconds", "25", "--only", "produce-100,sync"),),
        7 * _MINUTE,
        40.0,
    ),
    Part(
        "spark",
        "Spark",
        (("bench.spark",),),
        (("bench.spark", "--quick"),),
        9 * _MINUTE,
        140.0,
    ),
    Part(
        "limit",
        "One broker and a bare loop from a socket to a file",
        [[*_bench(_LIMITED), "--without-kafka"]],
        [[*_bench(_LIMITED[:1]), "--without-kafka", "--quick"]],
        1 * _MINUTE,
        30.0,
    ),
    Part(
        "profile",
        "Where the time goes",
        (("bench.report.profiling",),),
        (("bench.report.profiling", "--quick"),),
        1 * _MINUTE,
        15.0,
        takes_rounds=False,
    ),
)
NAMES = tuple(part.name for part in PARTS)
