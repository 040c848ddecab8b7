"""The broker's cost of a request, a message and a byte: a straight line through CPU time per message by size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.report.part_results import PartResult

SIZES = {"10": 10, "100": 100, "1k": 1024, "10k": 10 * 1024}
_CPU = "broker CPU per message"
_FEWEST = 2


@dataclass(frozen=True, slots=True)
class Cost:
    """Microseconds of CPU time: of each message, and of each KiB of it."""

    per_message_us: float
    per_kib_us: float


def by_size(kept: PartResult, mode: str) -> dict[str, list[tuple[int, float]]]:
    """CPU time per message by size, of Qanat and of the other system; `mode` is produce or consume."""
    found: dict[str, list[tuple[int, float]]] = {}
    for name, size in SIZES.items():
        row = kept.row(f"{mode}-{name}", _CPU)
        if row is not None:
            found.setdefault("Qanat", []).append((size, row.ours))
            if row.limit is not None:
                found.setdefault(row.limit_is, []).append((size, row.limit))
    return found


def fitted(points: Sequence[tuple[int, float]]) -> Cost | None:
    """The line with the least relative error: small messages count as much as large ones.

    >>> fitted([(0, 1.0), (1024, 3.0)])
    Cost(per_message_us=1.0, per_kib_us=2.0)
    """
    usable = [(size / 1024, cost) for size, cost in points if cost > 0]
    if len({size for size, _ in usable}) < _FEWEST:
        return None
    weights = [1 / cost**2 for _, cost in usable]
    whole = sum(weights)
    middle = sum(w * x for w, (x, _) in zip(weights, usable, strict=True)) / whole
    level = sum(w * y for w, (_, y) in zip(weights, usable, strict=True)) / whole
    spread = sum(w * (x - middle) ** 2 for w, (x, _) in zip(weights, usable, strict=True))
    slope = sum(w * (x - middle) * (y - level) for w, (x, y) in zip(weights, usable, strict=True)) / spread
    return Cost(level - slope * middle, slope)
