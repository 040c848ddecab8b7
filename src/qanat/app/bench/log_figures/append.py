"""Appending without fsync, beside a bare loop of `pwrite` with the same bytes."""

from __future__ import annotations

import time

from qanat.app.bench.figures import Limit, Required, Row, row, taking_turns
from qanat.app.bench.log_figures import bare_loops
from qanat.app.bench.log_figures.batches import SMALL_BATCH_BYTES, UNFLUSHED, batch_of
from qanat.app.bench.log_figures.plan import Bench
from qanat.app.bench.workspace import emptied
from qanat.app.node.compose import clock_ms, open_log_directory
from qanat.log.admission import admit
from qanat.log.background_jobs import run_now
from qanat.log.files import Buffer
from qanat.log.partition_log import PartitionLog
from qanat.model.ids import TopicPartition

PARTITION = TopicPartition("bench", 0)
TOPIC_ID = "benchbenchbenchbenchbe"
DECOMPRESSED_BYTES_MAX = 64 * 1024 * 1024
_RECORDS_PER_SECOND = 1_000_000


def measure(bench: Bench) -> list[Row]:
    batch, records = batch_of(SMALL_BATCH_BYTES)
    count = max(1, bench.plan.append_bytes // len(batch))
    ours, limit = taking_turns(
        bench.rounds, lambda: _ours(bench, batch, count) / 1e6, lambda: _bare(bench, batch, count) / 1e6
    )
    rates = [mb_per_second * 1e6 / len(batch) * records for mb_per_second in ours]
    what = "append 16 KB batches of 100-byte records, no fsync"
    return [
        row("append", what, "MB/s", ours, Limit(limit, "bare pwrite"), Required("ratio", ">=", 0.5)),
        row("append", what, "records/s", rates, None, Required("ours", ">=", _RECORDS_PER_SECOND)),
    ]


def _ours(bench: Bench, batch: bytes, count: int) -> float:
    """Bytes per second: every batch is admitted like a client's, then appended."""
    with emptied(bench.folder) as folder:
        directory = open_log_directory(str(folder), topic_settings=lambda topic: UNFLUSHED)
        log = directory.create(PARTITION, TOPIC_ID, UNFLUSHED)
        received = memoryview(bytearray(batch))  # A buffer of its own, as from a connection.
        start = time.perf_counter()
        append_all(log, received, count)
        seconds = time.perf_counter() - start
        assert log.size == count * len(batch), "the log holds what was written"
        # Deleted first: closing would sync data that is not needed.
        run_now(directory.begin_delete(PARTITION))
        directory.close()
    return count * len(batch) / seconds


def append_all(log: PartitionLog, batch: Buffer, count: int) -> None:
    settings, now_ms = log.settings, clock_ms()
    for _ in range(count):
        log.append(admit(batch, settings, now_ms, DECOMPRESSED_BYTES_MAX), 0, now_ms)


def _bare(bench: Bench, batch: bytes, count: int) -> float:
    with emptied(bench.folder) as folder:
        run = bare_loops.write(folder / "bare", batch, count)
    return run.written_bytes / run.seconds
