"""Figures of failover and of many partitions as rows of a result, with their requirements."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from bench.failover.losses import Losses
from bench.failover.partitions import Cost, Restart
from qanat.app.bench.figures import Required, Row

KILL_RATIO, KILL_RATIO_GOAL = 0.6, 0.3
_KILL_TYPICAL_S, _KILL_P99_S, _STOP_S, _RESTART_S = 3.0, 6.0, 0.5, 10.0
_MIB = 1 << 20


def of_kills(found: Losses) -> list[Row]:
    """The leader killed."""
    what = _killed(found)
    return [
        _plain("kill", f"{what}, p50", "s", found.gaps_s, found.typical_s, _at_most(_KILL_TYPICAL_S)),
        _plain("kill", f"{what}, p99", "s", found.gaps_s, found.p99_s, _at_most(_KILL_P99_S)),
        _kept("kill", found),
    ]


def of_kills_compared(found: Losses, theirs: Losses, name: str) -> Row:
    """The same compared with another system; the spread is the best and the worst that the ratio may have been."""
    return Row(
        "kill",
        f"{_killed(found)}, compared with Kafka's of {len(theirs.gaps_s)} tries",
        "s",
        found.typical_s,
        min(found.gaps_s) / max(theirs.gaps_s),
        max(found.gaps_s) / min(theirs.gaps_s),
        theirs.typical_s,
        name,
        found.typical_s / theirs.typical_s,
        Required("ratio", "<=", KILL_RATIO),
        Required("ratio", "<=", KILL_RATIO_GOAL),
    )


def _killed(found: Losses) -> str:
    return f"leader killed with -9, {len(found.gaps_s)} tries: longest gap between acknowledgements"


def of_stops(found: Losses) -> list[Row]:
    """The leader shut down cleanly."""
    what = f"leader shut down cleanly, {len(found.gaps_s)} tries: longest gap"
    return [
        _plain("stop", f"{what}, p50", "s", found.gaps_s, found.typical_s),
        _plain("stop", f"{what}, worst", "s", found.gaps_s, found.worst_s, _at_most(_STOP_S)),
        _plain("stop", "errors of the writer", "errors", [found.errors], found.errors, _at_most(0)),
        _kept("stop", found),
    ]


def of_restart(found: Restart) -> list[Row]:
    what = f"restart after kill -9 with {found.partitions:,} partitions"
    return [
        _plain("restart", f"{what}: until it answers", "s", [found.answers_s]),
        _plain("restart", f"{what}: until it is in sync", "s", [found.in_sync_s], required=_at_most(_RESTART_S)),
    ]


def of_costs(costs: Sequence[Cost]) -> list[Row]:
    """The cost of partitions, by their number."""
    rows = []
    for one in costs:
        name, what = f"growth-{one.partitions}", f"{one.partitions:,} partitions of 3 replicas"
        rows += [
            _plain(name, f"{what}: memory of a broker, without mapped files", "MiB", [one.memory_bytes / _MIB]),
            _plain(name, f"{what}: CPU when idle, of one processor", "%", [one.idle_cpu * 100]),
            _plain(name, f"{what}: {one.elected:,} other leaders elected after kill -9", "s", [one.elect_s]),
        ]
    return rows


def _kept(figure: str, found: Losses) -> Row:
    what = f"missing at the end of {found.acknowledged:,} acknowledged messages"
    return _plain(figure, what, "messages", [found.missing], found.missing, _at_most(0))


def _plain(
    figure: str,
    what: str,
    unit: str,
    values: Sequence[float],
    judged: float | None = None,
    required: Required | None = None,
) -> Row:
    """A figure without a comparison: the judged number, and the lowest and highest of all."""
    return Row(
        figure,
        what,
        unit,
        median(values) if judged is None else judged,
        min(values),
        max(values),
        required=required,
    )


def _at_most(bound: float) -> Required:
    return Required("ours", "<=", bound)
