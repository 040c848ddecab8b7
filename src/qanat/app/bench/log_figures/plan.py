"""How much is measured: the full run (under three minutes) and the quick one (some twenty seconds)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True)
class Plan:
    """Sizes of the measurements, per round."""

    append_bytes: int
    commit_bytes: int
    read_bytes: int
    lookups: int
    index_bytes: int
    """Size of the one large segment that offsets are looked up in."""
    column_records: int
    partitions: int
    idle_partitions: int


FULL = Plan(
    append_bytes=256 * MIB,
    commit_bytes=512 * MIB,
    read_bytes=512 * MIB,
    lookups=20_000,
    index_bytes=128 * MIB,
    column_records=500_000,
    partitions=1000,
    idle_partitions=2000,
)
QUICK = Plan(
    append_bytes=64 * MIB,
    commit_bytes=128 * MIB,
    read_bytes=128 * MIB,
    lookups=2_000,
    index_bytes=32 * MIB,
    column_records=100_000,
    partitions=1000,
    idle_partitions=500,
)


@dataclass(frozen=True, slots=True)
class Bench:
    """The context of a measurement: its folder, its sizes, its rounds, and where it reports."""

    folder: Path
    plan: Plan
    rounds: int
    report_progress: Callable[[str], None]
    notes: list[str]
    """Notes for readers of the result; measurements append to it."""
