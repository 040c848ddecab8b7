"""Batches in and out, by size and compression."""

from __future__ import annotations

from collections.abc import Mapping

from bench.workloads.bounds import CPU, CPU_GOAL, FLUSHED_GOAL_RATE, PAR, cpu_bounds
from bench.workloads.form import Workload, cpu, cpu_per_gb, rate
from bench.workloads.settings import BATCHED, FLUSHED, KIB, METRICS, READING_ON, UNFLUSHED


def produce(
    name: str,
    what: str,
    size: int,
    count: int,
    required: float | None,
    topic: Mapping[str, str],
    *,
    goal: float | None = None,
    is_quick: bool = False,
) -> Workload:
    figures = (rate(required, goal), cpu(*cpu_bounds(topic)))
    return Workload(name, what, "produce", size, count, figures, BATCHED, topic, is_quick=is_quick)


def _consume(
    name: str,
    what: str,
    size: int,
    count: int,
    required: float | None,
    goal: float,
    *,
    is_quick: bool = False,
    turns: int = 1,
) -> Workload:
    figures = (rate(required, goal), cpu(CPU, CPU_GOAL), cpu_per_gb(size, CPU, CPU_GOAL))
    return Workload(
        name,
        what,
        "consume",
        size,
        count,
        figures,
        READING_ON,
        UNFLUSHED,
        is_filled=True,
        is_quick=is_quick,
        turns=turns,
    )


def _compressed(codec: str, size: int, label: str, count: int) -> tuple[Workload, Workload]:
    """Produce and consume; the client compresses, the broker does not decompress."""
    client = {"compression.codec": codec, **METRICS}
    figures = (rate(goal=PAR), cpu(goal=PAR))
    what = f"{label} of metric lines, {codec}"
    return (
        Workload(
            f"produce-{_short(size)}-{codec}",
            f"produce {what}",
            "produce",
            size,
            count,
            figures,
            {**BATCHED, **client},
            UNFLUSHED,
        ),
        Workload(
            f"consume-{_short(size)}-{codec}",
            f"consume {what}",
            "consume",
            size,
            count,
            figures,
            READING_ON,
            UNFLUSHED,
            is_filled=True,
            filling=client,
        ),
    )


def _short(size: int) -> str:
    return f"{size // KIB}k" if size >= KIB else str(size)


PRODUCING = (
    produce("produce-10", "produce 10 B in batches", 10, 2_000_000, None, UNFLUSHED, goal=PAR),
    produce("produce-100", "produce 100 B in batches", 100, 2_000_000, 1.0, UNFLUSHED, goal=1.2, is_quick=True),
    produce("produce-1k", "produce 1 KB in batches", KIB, 500_000, 1.5, UNFLUSHED, goal=1.8, is_quick=True),
    produce("produce-10k", "produce 10 KB in batches", 10 * KIB, 50_000, None, UNFLUSHED, goal=PAR),
)
CONSUMING = (
    _consume("consume-10", "consume 10 B", 10, 4_000_000, None, PAR),
    _consume("consume-100", "consume 100 B", 100, 4_000_000, 1.0, 1.2, turns=2),
    _consume("consume-1k", "consume 1 KB", KIB, 800_000, 1.0, 1.3, is_quick=True),
    _consume("consume-10k", "consume 10 KB", 10 * KIB, 80_000, None, PAR),
)
COMPRESSED = (
    *_compressed("lz4", 100, "100 B", 1_000_000),
    *_compressed("lz4", KIB, "1 KB", 300_000),
    *_compressed("zstd", 100, "100 B", 800_000),
    *_compressed("zstd", KIB, "1 KB", 200_000),
)
FLUSHED_PRODUCING = (
    produce("fsync-10", "produce 10 B in batches, fsync", 10, 1_000_000, 1.0, FLUSHED, goal=FLUSHED_GOAL_RATE),
    produce(
        "fsync-100",
        "produce 100 B in batches, fsync",
        100,
        1_000_000,
        1.0,
        FLUSHED,
        goal=FLUSHED_GOAL_RATE,
    ),
    produce("fsync-1k", "produce 1 KB in batches, fsync", KIB, 300_000, 1.0, FLUSHED, goal=FLUSHED_GOAL_RATE),
    produce("fsync-10k", "produce 10 KB in batches, fsync", 10 * KIB, 30_000, 1.0, FLUSHED, goal=FLUSHED_GOAL_RATE),
)
