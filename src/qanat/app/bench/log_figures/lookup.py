"""Offset lookup: random lookups in logs of few and of many segments."""

from __future__ import annotations

import random
import statistics
import time
from bisect import bisect_right
from dataclasses import dataclass

from qanat.app.bench.figures import Limit, Required, Row, row
from qanat.app.bench.log_figures.append import PARTITION, TOPIC_ID, append_all
from qanat.app.bench.log_figures.batches import batch_of
from qanat.app.bench.log_figures.plan import KIB, MIB, Bench
from qanat.app.bench.workspace import emptied
from qanat.app.node.compose import open_log_directory
from qanat.log.background_jobs import run_now
from qanat.log.flush_state import begin_flush
from qanat.log.partition_log import PartitionLog
from qanat.log.settings import NEVER_MS, LogSettings

SEGMENT_COUNTS = (1, 10, 50, 200)
_SEGMENT_BYTES = 256 * KIB
_BATCH_BYTES = 4 * KIB
_P99_US = 1000.0
_FLAT = 1.5
"""The median at 200 segments is at most this multiple of that at one: a few steps of a binary search more."""
_SEED = 20
_BARE = "bare search of all batches"


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
        bench.report_progress(f"lookup: {case.name}")
        ours, bare = _measure_case(bench, case)
        medians[case.name] = _medians(ours)
        required = Required("ours", "<=", _P99_US)
        rows.append(row("lookup", f"{case.name}, median", "µs", medians[case.name], Limit(_medians(bare), _BARE)))
        rows.append(row("lookup", f"{case.name}, p99", "µs", _p99(ours), Limit(_p99(bare), _BARE), required))
    few, many = (_named(count) for count in (SEGMENT_COUNTS[0], SEGMENT_COUNTS[-1]))
    growth = [after / before for before, after in zip(medians[few], medians[many], strict=True)]
    rows.append(row("lookup", f"{many} to {few}, median", "times", growth, None, Required("ours", "<=", _FLAT)))
    return rows


def _named(segments: int) -> str:
    return f"{segments} segment{'s' if segments > 1 else ''}"


def _medians(times_us: list[list[float]]) -> list[float]:
    return [statistics.median(one) for one in times_us]


def _p99(times_us: list[list[float]]) -> list[float]:
    return [statistics.quantiles(one, n=100)[98] for one in times_us]


def _measure_case(bench: Bench, case: Case) -> tuple[list[list[float]], list[list[float]]]:
    """Each round's lookup times in microseconds: ours, and those of the bare search."""
    settings = LogSettings(flush_messages=NEVER_MS, segment_bytes=case.segment_bytes)
    batch, _ = batch_of(_BATCH_BYTES)
    with emptied(bench.folder) as folder:
        directory = open_log_directory(str(folder), topic_settings=lambda topic: settings)
        try:
            log = directory.create(PARTITION, TOPIC_ID, settings)
            append_all(log, batch, max(1, case.size_bytes // len(batch)))
            run_now(begin_flush(log))
            places = _places(log)
            rounds = [
                (
                    look_up(log, bench.plan.lookups, seed),
                    look_up_barely(places, log.end_offset, bench.plan.lookups, seed),
                )
                for seed in range(_SEED, _SEED + bench.rounds + 1)
            ]
            del places
        finally:
            directory.close()
    return [ours for ours, _ in rounds[1:]], [bare for _, bare in rounds[1:]]


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


def _places(log: PartitionLog) -> tuple[list[int], list[tuple[memoryview, int, int]]]:
    """Every batch of the log: its offset, and the position of its bytes."""
    offsets: list[int] = []
    bytes_at: list[tuple[memoryview, int, int]] = []
    for segment in log.segments:
        view = segment.view()
        for position, header in segment.batches():
            offsets.append(header.base_offset)
            bytes_at.append((view, position, position + header.size))
    return offsets, bytes_at


def look_up_barely(
    places: tuple[list[int], list[tuple[memoryview, int, int]]], end_offset: int, count: int, seed: int
) -> list[float]:
    """The least that a lookup could do: search a list of all batches, which no log could afford; take a slice."""
    offsets, bytes_at = places
    chance = random.Random(seed)
    wanted = [chance.randrange(end_offset) for _ in range(count)]
    times_us: list[float] = []
    for offset in wanted:
        start = time.perf_counter_ns()
        view, first, end = bytes_at[bisect_right(offsets, offset) - 1]
        batch = view[first:end]
        times_us.append((time.perf_counter_ns() - start) / 1000)
        assert len(batch) == end - first, "one batch"
    return times_us
