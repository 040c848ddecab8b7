"""The figures that the client must reach, and those that it has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Bar:
    """One figure, and its limit."""

    what: str
    found: float | None
    """None where it could not be measured."""
    limit: float
    sense: Literal["at most", "at least"]
    unit: str = "×"

    @property
    def is_met(self) -> bool:
        if self.found is None:
            return False
        return self.found <= self.limit if self.sense == "at most" else self.found >= self.limit

    @property
    def shown(self) -> str:
        return "not measured" if self.found is None else f"{self.found:.2f} {self.unit}"

    def __str__(self) -> str:
        verdict = "met" if self.is_met else "NOT met"
        return f"{self.what:62s} {self.shown:>14s}  {self.sense} {self.limit:g} {self.unit}: {verdict}"


def show(bars: Sequence[Bar]) -> int:
    """Print all; returns how many are not met."""
    for bar in bars:
        print(f"  {bar}", flush=True)
    return sum(not bar.is_met for bar in bars)
