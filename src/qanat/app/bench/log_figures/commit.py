"""Group commit: many appenders that wait for the disk, beside a bare loop of `pwrite` and overlapped `fdatasync`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec

from qanat.app.bench.figures import Limit, Required, Row, row, taking_turns
from qanat.app.bench.log_figures import bare_loops
from qanat.app.bench.log_figures.append import TOPIC_ID
from qanat.app.bench.log_figures.batches import LARGE_BATCH_BYTES, batch_of
from qanat.app.bench.log_figures.plan import MIB, Bench
from qanat.app.bench.workspace import VOLATILE, emptied, file_system
from qanat.app.node.compose import Logs, open_log_directory
from qanat.log.partition_log import PartitionLog
from qanat.log.runtime.log_runtime import LogRuntime
from qanat.log.settings import DirectorySettings, LogSettings
from qanat.model.ids import TopicPartition

APPENDERS = 64
UNFLUSHED_BYTES_MAX = 16 * MIB
SEVERAL = 8


def measure(bench: Bench) -> list[Row]:
    if file_system(bench.folder) in VOLATILE:
        bench.notes.append("commit was skipped: a sync does nothing on a file system in memory; use a --dir on a disk")
        return []
    batch, _ = batch_of(LARGE_BATCH_BYTES)
    count = max(1, bench.plan.commit_bytes // len(batch))
    one, several, limit = taking_turns(
        bench.rounds,
        lambda: _ours(bench, batch, count, 1) / 1e6,
        lambda: _ours(bench, batch, count, SEVERAL) / 1e6,
        lambda: _bare(bench, batch, count) / 1e6,
    )
    bare_limit = Limit(limit, "bare pwrite beside fdatasync")
    what = f"{APPENDERS} appenders of 256 KB batches, each on disk before the next"
    return [
        row("commit", f"{what}: 1 partition", "MB/s", one, bare_limit, Required("ratio", ">=", 0.8)),
        row("commit", f"{what}: {SEVERAL} partitions", "MB/s", several, bare_limit),
    ]


def new_loop() -> Callable[[], asyncio.AbstractEventLoop]:
    """The factory of the event loop that a broker uses here."""
    if find_spec("uvloop") is None:
        return asyncio.new_event_loop
    import uvloop

    return uvloop.new_event_loop


def _ours(bench: Bench, batch: bytes, count: int, partitions: int) -> float:
    """Bytes per second until the last batch is on disk."""
    with emptied(bench.folder) as folder, asyncio.Runner(loop_factory=new_loop()) as runner:
        seconds = runner.run(_append_synced(str(folder), batch, count, partitions))
    return count * len(batch) / seconds


async def _append_synced(path: str, batch: bytes, count: int, partitions: int) -> float:
    settings = LogSettings()
    directory = open_log_directory(path, settings=DirectorySettings(log_unflushed_bytes_max=UNFLUSHED_BYTES_MAX))
    async with Logs(directory) as runtime:
        logs = [await runtime.create(TopicPartition("bench", at), TOPIC_ID, settings) for at in range(partitions)]
        turns = iter(range(count))
        start = time.perf_counter()
        async with asyncio.TaskGroup() as tasks:
            for number in range(APPENDERS):
                tasks.create_task(_appender(runtime, logs[number % partitions], batch, turns))
        seconds = time.perf_counter() - start
        assert sum(log.size for log in logs) == count * len(batch), "the logs hold what was written"
        assert all(log.flushed_offset == log.end_offset for log in logs), "and all of it is on disk"
    return seconds


async def _appender(runtime: LogRuntime, log: PartitionLog, batch: bytes, turns: Iterator[int]) -> None:
    """A client that sends its next batch after the acknowledgement of the last one."""
    for _ in turns:
        appended = await runtime.append(log, batch, 0)
        await runtime.flushed(log, appended.last_offset + 1)


def _bare(bench: Bench, batch: bytes, count: int) -> float:
    with emptied(bench.folder) as folder:
        run = bare_loops.write_synced(folder / "bare", batch, count, UNFLUSHED_BYTES_MAX)
    assert run.synced_bytes == run.written_bytes, "everything is durable"
    return run.written_bytes / run.seconds
