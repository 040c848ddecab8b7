"""What a run has shown: lost, doubled, out of order, different bytes; and how long records waited over whole links."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from verify.edge_fire.traffic import Reader, Writer

LAG_MAX_S = 5.0

Span = tuple[float, float]
"""A time, from and to."""


@dataclass
class Level:
    """One level of the tree at the end."""

    name: str
    lost: int
    doubled: int
    disorder: int
    waits_s: list[float] = field(default_factory=list)
    """Sorted; see `waits`."""

    def problems(self) -> list[str]:
        counts = {"records are lost": self.lost, "records came twice": self.doubled, "are out of order": self.disorder}
        found = [f"{self.name}: {count} {what}" for what, count in counts.items() if count]
        late = len(self.waits_s) - bisect_left(self.waits_s, LAG_MAX_S)
        if late:
            found.append(f"{self.name}: {late} records waited {LAG_MAX_S:.0f} s and more over whole links")
        return found

    def described(self) -> str:
        middle, rare, most = (quantile(self.waits_s, part) for part in (0.5, 0.99, 1.0))
        return (
            f"{self.name}: {len(self.waits_s)} records, {self.lost} lost, {self.doubled} doubled, {self.disorder} "
            f"out of order; waited over whole links p50 {middle:.3f} s, p99 {rare:.3f} s, at most {most:.3f} s"
        )


def judge(name: str, writer: Writer, reader: Reader, disturbed: Sequence[Span]) -> Level:
    """Compare what was promised at the root with what came at one level."""
    lost = sum(1 for number, one in enumerate(writer.acknowledged) if one and number not in reader.arrived_s)
    spans = joined(disturbed)
    waits = [waited(writer.produced_s[number], at, spans) for number, at in reader.arrived_s.items()]
    return Level(name, lost, sum(reader.again.values()), reader.disorder, sorted(waits))


def joined(spans: Sequence[Span]) -> list[Span]:
    """The same times, in order, none touching another."""
    found: list[Span] = []
    for begin, end in sorted(spans):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((begin, end))
    return found


def waited(produced_s: float, arrived_s: float, disturbed: Sequence[Span]) -> float:
    """The longest time that a record waited without a disturbance: since its production, or since a healing."""
    longest, at = 0.0, produced_s
    place = max(0, bisect_left(disturbed, (produced_s, produced_s)) - 1)
    for begin, end in disturbed[place:]:
        if begin >= arrived_s:
            break
        if end > at:
            longest = max(longest, begin - at)
            at = end
    return max(longest, arrived_s - at)


def quantile(values: Sequence[float], part: float) -> float:
    return values[min(len(values) - 1, int(part * len(values)))] if values else 0.0


def different(name: str, there: Mapping[str, bytes], here: Mapping[str, bytes]) -> list[str]:
    """The partitions of a level that are not those of the root, byte by byte."""
    return [
        f"{name}: {partition} has {len(here.get(partition, b''))} bytes, the root {len(content)}, and they differ"
        for partition, content in there.items()
        if here.get(partition) != content
    ]
