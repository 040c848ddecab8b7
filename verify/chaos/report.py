"""The report of a run: figures, requirements and anomalies."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

_SHOWN = 20


@dataclass
class Sample:
    """The progress at one point in time."""

    at_s: float
    acknowledged: int
    is_under_fault: bool


@dataclass
class Findings:
    """All figures of a run, and its anomalies."""

    store: str
    seed: int
    seconds: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    samples: list[Sample] = field(default_factory=list)
    acknowledged: dict[str, int] = field(default_factory=dict)
    gaps_s: dict[str, float] = field(default_factory=dict)
    read: dict[str, int] = field(default_factory=dict)
    readable_after_s: float = 0.0
    """From the end of the last fault until the running consumers had read everything."""
    lies: list[str] = field(default_factory=list)
    """The lies of disks, in order."""
    longest_led_s: float = 0.0
    """From the start of all brokers, one with a lying disk, until every partition had a leader."""
    longest_in_sync_s: float = 0.0
    """From the end of other faults until all replicas were in sync, so that a disk might lie."""
    anomalies: list[str] = field(default_factory=list)
    shortfalls: list[str] = field(default_factory=list)
    """Requirements on the run itself that it missed."""
    notes: list[str] = field(default_factory=list)

    @property
    def rate_between_faults(self) -> float:
        """Acknowledged records a second while no fault was active."""
        seconds = records = 0.0
        for before, after in zip(self.samples, self.samples[1:], strict=False):
            if not before.is_under_fault and not after.is_under_fault:
                seconds += after.at_s - before.at_s
                records += after.acknowledged - before.acknowledged
        return records / seconds if seconds else 0.0

    @property
    def is_good(self) -> bool:
        return not self.anomalies and not self.shortfalls

    def measure_against(self, kinds: list[str], least_rate: float, least_faults: int) -> None:
        """Note where too few records or faults make the run weak."""
        if self.rate_between_faults < least_rate:
            self.shortfalls.append(
                f"{self.rate_between_faults:,.0f} records/s between faults, {least_rate:,.0f} wanted"
            )
        for kind in kinds:
            if self.faults[kind] < least_faults:
                self.shortfalls.append(f"{self.faults[kind]} faults of the kind {kind!r}, {least_faults} wanted")

    def table(self) -> str:
        total = sum(self.acknowledged.values())
        lines = [
            f"chaos on {self.store}, seed {self.seed}: {self.seconds:.0f} s, {self.faults.total()} faults",
            *(f"  {kind:<34}{count:>12}" for kind, count in sorted(self.faults.items())),
            f"  {'acknowledged records':<34}{total:>12,}",
            *(f"    {name:<32}{count:>12,}" for name, count in self.acknowledged.items()),
            f"  {'records/s between faults':<34}{self.rate_between_faults:>12,.0f}",
            f"  {'records/s over all':<34}{total / max(self.seconds, 1):>12,.0f}",
            *(f"  {'longest gap, ' + name:<34}{gap:>10.1f} s" for name, gap in self.gaps_s.items()),
            *(f"  {'read by ' + name:<34}{count:>12,}" for name, count in self.read.items()),
            f"  {'all readable after':<34}{self.readable_after_s:>10.1f} s",
            *self._rows_of_lies(),
            f"  {'anomalies':<34}{len(self.anomalies):>12,}",
        ]
        lists = {"ANOMALY": self.anomalies, "TOO LITTLE": self.shortfalls, "lie": self.lies, "note": self.notes}
        for title, rows in lists.items():
            lines += [f"{title}: {row}" for row in rows[:_SHOWN]]
            if len(rows) > _SHOWN:
                lines.append(f"{title}: … and {len(rows) - _SHOWN} more")
        return "\n".join(lines)

    def _rows_of_lies(self) -> list[str]:
        if not self.lies:
            return []
        return [
            f"  {'all led after a lie, longest':<34}{self.longest_led_s:>10.1f} s",
            f"  {'all in sync before a lie, longest':<34}{self.longest_in_sync_s:>10.1f} s",
        ]
