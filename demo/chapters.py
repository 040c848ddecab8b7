"""The log's chapters of the demonstration. Each returns its figures; a claim that fails raises `ClaimError`."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import islice, pairwise
from pathlib import Path

from demo import writer
from demo.claims import claim
from demo.metrics import HOSTS, Totals, measurements
from qanat.app.node.compose import Logs, open_log_directory
from qanat.log.partition_log import PartitionLog
from qanat.log.runtime.log_runtime import LogRuntime
from qanat.log.settings import LogSettings
from qanat.log.timestamp_lookup import find_timestamp
from qanat.model.ids import TopicPartition
from qanat.wire.batch_header import split_batches
from qanat.wire.column_layout import BinaryColumn
from qanat.wire.columns import decode_columns
from qanat.wire.compression import Codec
from qanat.wire.records import encode_batch

TOPIC = "metrics.inbound"
PARTITIONS = 4
BATCH_RECORDS = 500
_LIMIT_BYTES = 64 * 1024 * 1024

Progress = Callable[[int], None]


def make_batches(records: int, totals: Totals, progress: Progress) -> list[bytearray]:
    """All batches, encoded as a producer would: lz4, 500 records each."""
    source = measurements(1, records, totals)
    batches = []
    while chunk := list(islice(source, BATCH_RECORDS)):
        batches.append(encode_batch(chunk, codec=Codec.LZ4))
        progress(len(chunk))
    return batches


async def ingest(path: Path, batches: list[bytearray], progress: Progress) -> float:
    """Append all batches to four partitions, each acknowledged when it is on disk; returns the seconds."""
    async with Logs(open_log_directory(str(path))) as runtime:
        logs = [
            await runtime.create(TopicPartition(TOPIC, number), "demo", LogSettings()) for number in range(PARTITIONS)
        ]
        queue = list(enumerate(batches))

        async def produce() -> None:
            while queue:
                number, batch = queue.pop()
                log = logs[number % PARTITIONS]
                appended = await runtime.append(log, batch, 0)
                await runtime.flushed(log, appended.last_offset + 1)
                progress(appended.last_offset + 1 - appended.base_offset)

        started = time.perf_counter()
        await asyncio.gather(*(produce() for _ in range(32)))
        return time.perf_counter() - started


async def read_back(path: Path, progress: Progress) -> tuple[Totals, float, float]:
    """Reopen after the clean shutdown, read everything as columns and add it up again."""
    totals = Totals()
    started = time.perf_counter()
    directory = open_log_directory(str(path))
    opened = time.perf_counter() - started
    claim(directory.was_clean, "the directory was closed cleanly")
    async with Logs(directory) as runtime:
        started = time.perf_counter()
        columns = [batch for log in directory.logs.values() for batch in await _columns_of(runtime, log, progress)]
        elapsed = time.perf_counter() - started
    for values in columns:
        for value in values:
            record = json.loads(value)
            totals.add(record["host"], record["value"])
    return totals, opened, elapsed


async def _columns_of(runtime: LogRuntime, log: PartitionLog, progress: Progress) -> list[list[bytes]]:
    values, offset = [], log.log_start_offset
    while offset < log.end_offset:
        part = await runtime.read(log, offset, 4 * 1024 * 1024)
        batches = [batch for view in part.views() for batch in split_batches(view)]
        values.append(_rows(decode_columns(batches, limit_bytes=_LIMIT_BYTES).values))
        progress(len(values[-1]))
        offset = part.next_offset
    return values


def _rows(column: BinaryColumn) -> list[bytes]:
    data, offsets = memoryview(column.data), column.offsets
    return [bytes(data[start:end]) for start, end in pairwise(offsets)]


def die_and_recover(path: Path, seconds: float) -> tuple[int, int, float]:
    """Kill a writing process with -9; returns acknowledged records, records found, and the time to recover."""
    process = subprocess.Popen([sys.executable, "-m", writer.__name__, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    acknowledged = int(process.stdout.readline() or 0)
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    acknowledged = max([acknowledged, *(int(line) for line in process.stdout if line.endswith("\n"))])
    process.wait()
    started = time.perf_counter()
    directory = open_log_directory(str(path))
    elapsed = time.perf_counter() - started
    claim(not directory.was_clean, "a killed process leaves no clean-shutdown marker")
    found = directory.logs[writer.PARTITION].end_offset
    directory.close()
    claim(acknowledged > 0, "the writer acknowledged something before it was killed")
    claim(found >= acknowledged, f"all {acknowledged} acknowledged records are there ({found} found)")
    return acknowledged, found, elapsed


async def compact(path: Path) -> tuple[int, int, int]:
    """Compact to the latest value per host; returns bytes before and after, and the records left in sealed segments."""
    settings = LogSettings.parse({"cleanup.policy": "compact", "segment.bytes": 1024 * 1024})
    at = TopicPartition("hosts.latest", 0)
    async with Logs(open_log_directory(str(path))) as runtime:
        log = await runtime.create(at, "demo", settings)
        source = measurements(2, 60_000, Totals())
        while chunk := list(islice(source, BATCH_RECORDS)):
            await runtime.append(log, encode_batch(chunk), 0)
        await runtime.flushed(log, log.end_offset)
        log.advance_high_watermark(log.end_offset)
        before = log.size - log.active.size
        await runtime.compact(log, lambda _: None)
        after = log.size - log.active.size
        kept = sum(header.record_count for segment in log.segments[:-1] for _, header in segment.batches())
        claim(kept == len(HOSTS), f"one record per host is left, {kept} are")
        claim(find_timestamp(log, 0, _LIMIT_BYTES) is not None, "a compacted log can still be searched by time")
    return before, after, kept
