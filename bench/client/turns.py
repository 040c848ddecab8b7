"""The figures of one client in all rounds."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field


@dataclass(slots=True)
class Turns:
    """CPU time per message and messages per second, one of each for every round."""

    cpu_us: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)

    def add(self, cpu_us: float, rate: float) -> None:
        self.cpu_us.append(cpu_us)
        self.rates.append(rate)

    @property
    def middle_us(self) -> float:
        return statistics.median(self.cpu_us)

    @property
    def middle_rate(self) -> float:
        return statistics.median(self.rates)

    def __str__(self) -> str:
        low, high = min(self.cpu_us), max(self.cpu_us)
        return (
            f"{self.middle_us:6.2f} µs/message ({low:.2f}–{high:.2f})  "
            f"{self.middle_rate / 1000:8.1f} k messages/s  "
            f"{1e3 / self.middle_us:8.1f} k messages per CPU second"
        )


def cpu_ratio(ours: Turns, theirs: Turns) -> float:
    """Our CPU time per message beside theirs, by pairs of turns of the same round."""
    return statistics.median(one / other for one, other in zip(ours.cpu_us, theirs.cpu_us, strict=True))


def rate_ratio(ours: Turns, theirs: Turns) -> float:
    """Our rate beside theirs, by pairs of turns of the same round."""
    return statistics.median(one / other for one, other in zip(ours.rates, theirs.rates, strict=True))
