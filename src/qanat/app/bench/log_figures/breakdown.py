"""The time of one append, part by part, each timed alone with the same batch."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from qanat.app.bench.figures import Part
from qanat.app.bench.log_figures.append import DECOMPRESSED_BYTES_MAX, PARTITION, TOPIC_ID
from qanat.app.bench.log_figures.batches import SMALL_BATCH_BYTES, UNFLUSHED, batch_of
from qanat.app.bench.log_figures.plan import Bench
from qanat.app.bench.workspace import emptied
from qanat.app.node.compose import clock_ms, open_log_directory
from qanat.log.admission import admit
from qanat.log.background_jobs import run_now
from qanat.wire.batch_header import PREFIX_SIZE, batch_crc, check_batch

_CALLS = 2000


def measure(bench: Bench) -> list[Part]:
    """The parts of admitting and appending one 16 KB batch; the last one is the whole."""
    batch, _ = batch_of(SMALL_BATCH_BYTES)
    now_ms = clock_ms()
    with emptied(bench.folder) as folder:
        crc_us = _median_us(bench.rounds, lambda: batch_crc(batch))
        checked_us = _median_us(bench.rounds, lambda: check_batch(batch))
        admitted_us = _median_us(bench.rounds, lambda: admit(batch, UNFLUSHED, now_ms, DECOMPRESSED_BYTES_MAX))
        write_us = _write_us(folder / "bare", batch, bench.rounds)
        append_us = _append_us(folder / "log", batch, bench.rounds)
    return [
        Part("checksum of the batch", crc_us),
        Part("header: read and checked", max(0.0, checked_us - crc_us)),
        Part("the topic's rules (size, timestamps, codec)", max(0.0, admitted_us - checked_us)),
        Part("pwritev: 16 bytes of prefix and the batch behind it", write_us),
        Part("bookkeeping (offsets, index, epochs, segment)", max(0.0, append_us - write_us)),
        Part("all of it", admitted_us + append_us),
    ]


def _append_us(folder: Path, batch: bytes, rounds: int) -> float:
    now_ms = clock_ms()
    admitted = admit(batch, UNFLUSHED, now_ms, DECOMPRESSED_BYTES_MAX)
    directory = open_log_directory(str(folder), topic_settings=lambda topic: UNFLUSHED)
    log = directory.create(PARTITION, TOPIC_ID, UNFLUSHED)
    took_us = _median_us(rounds, lambda: log.append(admitted, 0, now_ms))
    run_now(directory.begin_delete(PARTITION))
    directory.close()
    return took_us


def _write_us(path: Path, batch: bytes, rounds: int) -> float:
    """The system call alone, with the same two chunks, to a growing file."""
    chunks = (batch[:PREFIX_SIZE], memoryview(batch)[PREFIX_SIZE:])
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    positions = iter(range(0, len(batch) * _CALLS * (rounds + 1), len(batch)))
    try:
        return _median_us(rounds, lambda: os.pwritev(fd, chunks, next(positions)))
    finally:
        os.close(fd)


def _median_us(rounds: int, call: Callable[[], object]) -> float:
    times_us: list[float] = []
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(_CALLS):
            call()
        times_us.append((time.perf_counter() - start) / _CALLS * 1e6)
    return statistics.median(times_us)
