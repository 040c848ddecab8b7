"""Finding an offset: random look-ups in logs of few and of many segments."""

from __future__ import annotations

import random
import statistics
import time
from dataclasses import dataclass

from qanat.app.bench.append import PARTITION, TOPIC_ID, append_all
from qanat.app.bench.batches import batch_of
from qanat.app.bench.figures import Required, Row, row
from qanat.app.bench.plan import KIB, MIB, Bench
from qanat.app.bench.workspace import emptied
from qanat.app.compose import open_log_directory
from qanat.log.flush import begin_flush
from qanat.log.jobs import run_now
from qanat.log.partition_log import PartitionLog
from qanat.log.settings import NEVER_MS, LogSettings

SEGMENT_COUNTS = (1, 10, 50, 200)
_SEGMENT_BYTES = 256 * KIB
_BATCH_BYTES = 4 * KIB
_P99_US = 1000.0
_FLAT = 1.5
"""The median at 200 segments is at most this multiple of that at one: a few steps of a binary search more."""
_SEED = 20


@dataclass(frozen=True, slots=True)
class Case:
    """A log to look up offsets in."""

    name: str
    segment_bytes: int
    size_bytes: int


def measure(bench: Bench) -> list[Row]:
    cases = [Case(_named(count), _SEGMENT_BYTES, count * _SEGMENT_BYTES) for count in SEGMENT_COUNTS]
    cases.append(
        Case(f"1 segment of {bench.plan.index_bytes // MIB} MiB", 2 * bench.plan.index_bytes, bench.plan.index_bytes)
    )
    rows: list[Row] = []
    medians: dict[str, list[float]] = {}
    for case in cases:
        bench.tell(f"lookup: {case.name}")
        times_us = _measure_case(bench, case)
        medians[case.name] = [statistics.median(one) for one in times_us]
        p99_us = [statistics.quantiles(one, n=100)[98] for one in times_us]
        rows.append(row("lookup", f"{case.name}, median", "µs", medians[case.name]))
        rows.append(row("lookup", f"{case.name}, p99", "µs", p99_us, None, Required("ours", "<=", _P99_US)))
    few, many = (_named(count) for count in (SEGMENT_COUNTS[0], SEGMENT_COUNTS[-1]))
    growth = [after / before for before, after in zip(medians[few], medians[many], strict=True)]
    rows.append(row("lookup", f"{many} to {few}, median", "times", growth, None, Required("ours", "<=", _FLAT)))
    return rows


def _named(segments: int) -> str:
    return f"{segments} segment{'s' if segments > 1 else ''}"


def _measure_case(bench: Bench, case: Case) -> list[list[float]]:
    """Each round's look-up times in microseconds."""
    settings = LogSettings(flush_messages=NEVER_MS, segment_bytes=case.segment_bytes)
    batch, _ = batch_of(_BATCH_BYTES)
    with emptied(bench.folder) as folder:
        directory = open_log_directory(str(folder), topic_settings=lambda topic: settings)
        try:
            log = directory.create(PARTITION, TOPIC_ID, settings)
            append_all(log, batch, max(1, case.size_bytes // len(batch)))
            run_now(begin_flush(log))
            rounds = [look_up(log, bench.plan.lookups, _SEED + number) for number in range(bench.rounds + 1)]
        finally:
            directory.close()
    return rounds[1:]


def look_up(log: PartitionLog, count: int, seed: int) -> list[float]:
    """Read one batch at each of so many random offsets; microseconds each."""
    chance = random.Random(seed)
    offsets = [chance.randrange(log.end_offset) for _ in range(count)]
    times_us: list[float] = []
    for offset in offsets:
        start = time.perf_counter_ns()
        views = log.read(offset, 1).views()
        times_us.append((time.perf_counter_ns() - start) / 1000)
        assert len(views) == 1, "one batch"
    return times_us
