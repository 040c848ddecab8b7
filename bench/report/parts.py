"""The parts of a report: which program is run with which words, and how long each may take.

A part of several steps is several runs of its program, the most important first: an end in the middle of one leaves
what those before it have found.
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
"""Of the time that is left: after it, a program that can be told begins nothing more, and writes what it has."""
_LIMITED = ("produce-1k", "consume-1k", "single", "sync")


def _broker_steps() -> list[list[str]]:
    """What is judged first, then the start, then all the rest."""
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
    """Words after `python`, for each run of it."""
    quick_steps: Sequence[Sequence[str]]
    seconds: float
    """How long it may take in all."""
    quick_seconds: float
    is_of_rounds: bool = True
    """Whether it is told how many rounds."""
    is_told_minutes: bool = False
    """Whether it is told after how many minutes to begin nothing more."""

    def commands(self, *, is_quick: bool, rounds: int) -> list[list[str]]:
        counted = ["--rounds", str(rounds)] if self.is_of_rounds else []
        return [["-m", *step, *counted] for step in (self.quick_steps if is_quick else self.steps)]

    def in_time(self, command: Sequence[str], left_s: float) -> list[str]:
        """The same command, told how much time is left where it can be."""
        return [*command, *(["--minutes", f"{left_s * _BEGINNING / _MINUTE:.2f}"] if self.is_told_minutes else [])]

    def budget_s(self, *, is_quick: bool) -> float:
        return self.quick_seconds if is_quick else self.seconds


PARTS = (
    Part(
        "broker",
        "One broker beside Apache Kafka",
        _broker_steps(),
        [[*_bench(_QUICK_BROKER), "--quick"]],
        22 * _MINUTE,
        90.0,
        is_told_minutes=True,
    ),
    Part(
        "three",
        "Three brokers beside three of Apache Kafka",
        (("bench.three",),),
        (("bench.three", "--quick", "--only", "100,fsync-100"),),
        8 * _MINUTE,
        40.0,
    ),
    Part(
        "failover",
        "A broker of three goes",
        (("bench.failover", "--tries", "10", "--stops", "5"),),
        (("bench.failover", "--quick", "--kafka-tries", "1", "--only", "kill"),),
        8 * _MINUTE,
        48.0,
        is_of_rounds=False,
    ),
    Part(
        "peers",
        "Beside systems that do not speak Kafka",
        (("bench.peers", "--seconds", "540"),),
        (("bench.peers", "--quick", "--seconds", "25", "--only", "produce-100,sync"),),
        10 * _MINUTE,
        40.0,
    ),
    Part(
        "spark",
        "Spark",
        (("bench.spark",),),
        (("bench.spark", "--quick", "--records", "100000"),),
        10 * _MINUTE,
        50.0,
    ),
    Part(
        "limit",
        "One broker beside a bare loop from a socket to a file",
        [[*_bench(_LIMITED), "--without-kafka"]],
        [[*_bench(_LIMITED[:1]), "--without-kafka", "--quick"]],
        1 * _MINUTE,
        12.0,
    ),
    Part(
        "profile",
        "Where the time goes",
        (("bench.report.profiling",),),
        (("bench.report.profiling", "--quick"),),
        1 * _MINUTE,
        15.0,
        is_of_rounds=False,
    ),
)
NAMES = tuple(part.name for part in PARTS)
