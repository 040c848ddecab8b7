"""Measured figures: ours, the limit beside it, the requirement, and whether it is met."""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

FEWEST_ROUNDS = 3
"""The fewest rounds that give a useful median."""

Verdict = Literal["met", "NOT met", "inconclusive", "for information"]


@dataclass(frozen=True, slots=True)
class Required:
    """A bound on the figure itself, or on its ratio to the limit."""

    of: Literal["ours", "ratio"]
    comparison: Literal[">=", "<="]
    bound: float

    def is_met_by(self, value: float) -> bool:
        return value >= self.bound if self.comparison == ">=" else value <= self.bound


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the result. `lowest` and `highest` are the range of the judged number over the rounds.

    `required` must hold; `goal` is shown, and missing it fails nothing.
    """

    figure: str
    what: str
    unit: str
    ours: float
    lowest: float
    highest: float
    limit: float | None = None
    limit_is: str = ""
    ratio: float | None = None
    required: Required | None = None
    goal: Required | None = None

    @property
    def verdict(self) -> Verdict:
        return self.against(self.required)

    @property
    def goal_verdict(self) -> Verdict:
        return self.against(self.goal)

    @property
    def ratio_of_medians(self) -> float | None:
        """The ratio of the two figures as a reader sees them; `ratio` is the median of the rounds' ratios."""
        return self.ours / self.limit if self.limit else self.ratio

    def against(self, bound: Required | None) -> Verdict:
        """A bound on the ratio is met or missed only where both ways to take the ratio agree."""
        if bound is None:
            return "for information"
        judged = (self.ratio, self.ratio_of_medians) if bound.of == "ratio" else (self.ours,)
        verdicts = {value is not None and bound.is_met_by(value) for value in judged}
        if len(verdicts) > 1:
            return "inconclusive"
        return "met" if verdicts == {True} else "NOT met"


@dataclass(frozen=True, slots=True)
class Limit:
    """The limit in each round, and its meaning."""

    values: Sequence[float]
    what: str


@dataclass(frozen=True, slots=True)
class Part:
    """One part of an append and its microseconds per call."""

    what: str
    took_us: float


def row(
    figure: str,
    what: str,
    unit: str,
    values: Sequence[float],
    limit: Limit | None = None,
    required: Required | None = None,
    goal: Required | None = None,
) -> Row:
    """Medians over the rounds; the ratio is ours to the limit of the same round."""
    ratios = [ours / bare for ours, bare in zip(values, limit.values, strict=True)] if limit else []
    judged = ratios if ratios and (required is None or required.of == "ratio") else values
    return Row(
        figure,
        what,
        unit,
        statistics.median(values),
        min(judged),
        max(judged),
        statistics.median(limit.values) if limit else None,
        limit.what if limit else "",
        statistics.median(ratios) if ratios else None,
        required,
        goal,
    )


def taking_turns(rounds: int, *measures: Callable[[], float]) -> list[list[float]]:
    """Each measure's values over the rounds, in alternation. One warm-up round before does not count."""
    values: list[list[float]] = [[] for _ in measures]
    for number in range(rounds + 1):
        for measure, found in zip(measures, values, strict=True):
            gc.collect()
            value = measure()
            if number:
                found.append(value)
    return values
