"""Reading from start to end, warm, beside a walk over the mapped files; both checksum every byte."""

from __future__ import annotations

import time

from qanat.app.bench.figures import Limit, Required, Row, row, taking_turns
from qanat.app.bench.log_figures.append import PARTITION, TOPIC_ID, append_all
from qanat.app.bench.log_figures.bare_loops import MapWalk
from qanat.app.bench.log_figures.batches import SMALL_BATCH_BYTES, UNFLUSHED, batch_of
from qanat.app.bench.log_figures.plan import MIB, Bench
from qanat.app.bench.workspace import emptied
from qanat.app.node.compose import open_log_directory
from qanat.log.background_jobs import run_now
from qanat.log.flush_state import begin_flush
from qanat.log.partition_log import PartitionLog
from qanat.wire.crc import crc32c

FETCH_BYTES = MIB


def measure(bench: Bench) -> list[Row]:
    batch, _ = batch_of(SMALL_BATCH_BYTES)
    count = max(1, bench.plan.read_bytes // len(batch))
    with emptied(bench.folder) as folder:
        directory = open_log_directory(str(folder), topic_settings=lambda topic: UNFLUSHED)
        try:
            log = directory.create(PARTITION, TOPIC_ID, UNFLUSHED)
            append_all(log, batch, count)
            run_now(begin_flush(log))
            ours, limit = _take_turns(bench, log)
        finally:
            directory.close()
    required = Required("ratio", ">=", 0.8)
    return [
        row("read", "read 1 MiB at a time, warm, checksummed", "MB/s", ours, Limit(limit, "bare mmap walk"), required)
    ]


def _take_turns(bench: Bench, log: PartitionLog) -> tuple[list[float], list[float]]:
    chunks, expected = chunks_of(log)
    bare = MapWalk([segment.file.path for segment in log.segments])

    def ours() -> float:
        # Not the folded checksum: a read ends at a cold segment, so the steps may differ by round.
        seconds, size = _walk(log)
        assert size == log.size, "every byte was read"
        return log.size / seconds / 1e6

    def limit() -> float:
        seconds, folded = bare.walk(chunks)
        assert folded == expected, "the same bytes were read"
        return log.size / seconds / 1e6

    mine, limits = taking_turns(bench.rounds, ours, limit)
    return mine, limits


def chunks_of(log: PartitionLog) -> tuple[list[tuple[int, int, int]], int]:
    """The slices of our reads, as (segment, start, end), for the same steps in the bare walk; and the checksum."""
    chunks: list[tuple[int, int, int]] = []
    offset = folded = 0
    while offset < log.end_offset:
        read = log.read(offset, FETCH_BYTES)
        chunks += [(log.segments.index(part.segment), part.start, part.end) for part in read.slices]
        for view in read.views():
            folded ^= crc32c(view)
        offset = read.next_offset
    return chunks, folded


def _walk(log: PartitionLog) -> tuple[float, int]:
    """Read and checksum everything; returns seconds and bytes."""
    offset = size = 0
    end_offset = log.end_offset
    start = time.perf_counter()
    while offset < end_offset:
        read = log.read(offset, FETCH_BYTES)
        for view in read.views():
            crc32c(view)
            size += len(view)
        offset = read.next_offset
    return time.perf_counter() - start, size
