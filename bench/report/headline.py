"""The headline figures: for each a floor, a goal, and the result compared with Apache Kafka; and all requirements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from bench.report.part_results import PartResult
from qanat.app.bench.figures import Required, Row
from qanat.app.bench.report import number

Verdict = Literal["goal met", "floor met", "NOT met", "inconclusive", "not measured"]
HEADINGS = ("workload", "floor", "goal", "measured", "verdict", "Qanat", "Apache Kafka")
FSYNC = "fsync-"
KAFKA = "Apache Kafka"
_CPU, _CPU_OUT, _CPU_IN = "broker CPU per message", "broker CPU per GB out", "broker CPU per GB in"
_PROTECTED_BATCHES = {
    f"{clients}{mode}-{size}": f"protected: {mode} {label}{after}"
    for clients, after in (("", ""), ("100-clients-", ", 100 clients"))
    for mode in ("produce", "consume")
    for size, label in (("100", "100 B"), ("1k", "1 KB"))
}


@dataclass(frozen=True, slots=True)
class Line:
    """One headline: a figure of a part, and the floor and goal of its ratio to Kafka's."""

    what: str
    part: str
    figure: str
    ending: str
    comparison: Literal[">=", "<="]
    floor: float
    goal: float

    def verdict(self, row: Row | None) -> Verdict:
        if row is None or row.ratio is None:
            return "not measured"
        match row.against(Required("ratio", self.comparison, self.floor)):
            case "inconclusive":
                return "inconclusive"
            case "NOT met":
                return "NOT met"
        is_goal_met = row.against(Required("ratio", self.comparison, self.goal)) == "met"
        return "goal met" if is_goal_met else "floor met"


@dataclass(frozen=True, slots=True)
class Judged:
    """A headline with its result, if there is one."""

    line: Line
    row: Row | None

    @property
    def verdict(self) -> Verdict:
        return self.line.verdict(self.row)

    @property
    def cells(self) -> tuple[str, ...]:
        sign = "≥" if self.line.comparison == ">=" else "≤"
        bounds = (f"{sign} {self.line.floor:g}×", f"{sign} {self.line.goal:g}×")
        if self.row is None or self.row.ratio is None or self.row.limit is None:
            return (self.line.what, *bounds, "–", self.verdict, "–", "–")
        unit = self.row.unit
        theirs = f"{number(self.row.limit)} {unit}"
        return (
            self.line.what,
            *bounds,
            f"**{self.row.ratio:.2f}×**",
            self.verdict,
            f"{number(self.row.ours)} {unit}",
            theirs,
        )


def _more(what: str, figure: str, floor: float, goal: float, ending: str = "", part: str = "broker") -> Line:
    return Line(what, part, figure, ending, ">=", floor, goal)


def _less(what: str, figure: str, ending: str, floor: float, goal: float, part: str = "broker") -> Line:
    return Line(what, part, figure, ending, "<=", floor, goal)


LINES = (
    _more("produce 100 B (bounded by the client)", "produce-100", 1.0, 1.2),
    _more("produce 1 KB", "produce-1k", 1.5, 1.8),
    _more("consume 100 B", "consume-100", 1.0, 1.2),
    _more("consume 1 KB", "consume-1k", 1.0, 1.3),
    _more("single-record requests, pipelined", "single", 2.0, 3.0),
    _more("single-record requests, 64 at a time", "single-64", 2.0, 3.0),
    _less("broker CPU per message in, 100 B", "produce-100", _CPU, 0.7, 0.5),
    _less("broker CPU per message in, 1 KB", "produce-1k", _CPU, 0.7, 0.5),
    _less("broker CPU per GB out, 100 B", "consume-100", _CPU_OUT, 0.7, 0.5),
    _less("broker CPU per GB out, 1 KB", "consume-1k", _CPU_OUT, 0.7, 0.5),
    _less("synchronous produce, p50", "sync", "p50", 1.0, 0.8),
    _less("synchronous produce, p99", "sync", "p99", 0.6, 0.3),
    _less("end to end at 1,000 messages/s, p99", "end-to-end", "p99", 0.6, 0.3),
    _less("process start to first answer", "start", "process start to first answered request", 0.2, 0.1),
    _less("idle memory", "memory", "idle, resident", 0.25, 0.15),
    _less("memory under load", "memory", "during all workloads, without mapped files", 0.3, 0.2),
    _more(
        "1,000 partitions: throughput kept of that with 1", "partitions-1000", 1.0, 1.1, "the throughput of 1 partition"
    ),
    _more("1,000 clients: throughput kept of that with 1", "clients-1000", 1.0, 1.1, "the throughput of 1 client"),
    _more("three brokers, RF 3, acks=all: 100 B", "100", 1.0, 1.3, part="three"),
    _more("three brokers, RF 3, acks=all: 1 KB", "1k", 1.0, 1.3, part="three"),
    *(_more(what, figure, 1.0, 1.3, part="protected") for figure, what in _PROTECTED_BATCHES.items()),
    _more("protected: single-record requests, pipelined", "single", 2.0, 3.0, part="protected"),
    *(
        _less(f"{what}, broker CPU per GB", figure, _CPU_IN if "produce" in figure else _CPU_OUT, 1.0, 0.7, "protected")
        for figure, what in _PROTECTED_BATCHES.items()
    ),
    _less("longest gap when the leader is killed", "kill", "tries", 0.6, 0.3, part="failover"),
)


@dataclass(frozen=True, slots=True)
class Requirement:
    """A figure of any table of the page that has a requirement."""

    part: str
    row: Row

    @property
    def what(self) -> str:
        compared = f", compared with {self.row.limit_is}" if self.row.limit_is else ""
        return f"{self.row.what}{compared}"


def required(kept: Mapping[str, PartResult]) -> list[Requirement]:
    """Every figure with a requirement, of all tables."""
    return [Requirement(name, row) for name, one in kept.items() for row in one.rows if row.required is not None]


def judged(kept: Mapping[str, PartResult]) -> list[Judged]:
    """Every headline, and then each figure with fsync on both sides."""
    found = [Judged(line, _beside_kafka(kept.get(line.part), line)) for line in LINES]
    return [*found, *(one for part in ("broker", "three") if part in kept for one in _flushed(kept[part]))]


def _beside_kafka(kept: PartResult | None, line: Line) -> Row | None:
    """The row of a headline; None where Kafka was not available and Qanat is compared with something else."""
    row = kept.row(line.figure, line.ending) if kept is not None else None
    return row if row is not None and row.limit_is.startswith(KAFKA) else None


def _flushed(kept: PartResult) -> list[Judged]:
    """With fsync per acknowledgement on both sides: as good is the floor, better the goal."""
    where = "three brokers: " if kept.part == "three" else ""
    lines = []
    for row in kept.rows:
        if row.figure.startswith(FSYNC) and row.required is not None and row.required.of == "ratio":
            comparison = row.required.comparison
            goal = row.goal.bound if row.goal is not None else (1.1 if comparison == ">=" else 0.9)
            line = Line(f"{where}{row.what}", kept.part, row.figure, row.what, comparison, 1.0, goal)
            lines.append(Judged(line, row))
    return lines
