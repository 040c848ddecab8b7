"""The plan of faults, drawn from a seed: the same seed gives the same plan.

Kinds come in shuffled rounds, so that each has its share whenever a run ends. Most faults end before the next begins;
where one does not, the next one hits another broker.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

LYING_KINDS = ("bit flip", "old image", "lost folder")
"""All brokers are killed, and one finds a changed disk. No other fault is active meanwhile."""
KINDS = ("kill", "pause", "partition", "one-way", "disk full", "fsync error", "store", "stop", *LYING_KINDS)
DISK_KINDS = frozenset({"disk full", "fsync error"})
_SHORTEST_S, _LONGEST_S = 0.3, 4.5
_LASTING = 0.1
"""Share of faults that last beyond the next one, and how long they last."""
_LASTING_S = (6.0, 9.0)


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """One fault of the plan."""

    number: int
    kind: str
    at_s: float
    """When it begins, after the first record."""
    lasts_s: float
    broker: int
    detail: float
    """A number from 0 to 1 that decides the details of a fault of this kind."""


def plan_faults(
    seed: int, seconds: float, brokers: int, period_s: float, kinds: Sequence[str] = KINDS
) -> Iterator[PlannedFault]:
    """Faults for so many seconds, one in every period, of these kinds."""
    random = Random(f"chaos {seed}")
    left: list[str] = []
    for number in range(int(seconds / period_s)):
        if not left:
            left = random.sample(kinds, len(kinds))
        kind, broker, detail = left.pop(), random.randrange(brokers), random.random()
        at_s = (number + random.uniform(0.2, 0.4)) * period_s
        is_lasting = random.random() < _LASTING
        lasts_s = random.uniform(*_LASTING_S) if is_lasting else random.triangular(_SHORTEST_S, _LONGEST_S, 1.5)
        yield PlannedFault(number, kind, at_s, lasts_s, broker, detail)
