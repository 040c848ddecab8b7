"""Data directories for the tests of `log/`: on any files, watched where it matters."""

from __future__ import annotations

import asyncio
import builtins
import itertools
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from threading import Event

from tests.log.batches import LIMIT, NOW, batch, batches_in, log_settings

from qanat.adapters.memory_catalogue import MemoryCatalogue
from qanat.adapters.memory_files import MemoryFiles
from qanat.log.directories.catalogue import Catalogue
from qanat.log.directories.directory import LogDirectory, open_directory
from qanat.log.directories.identity import DirectoryIdentity
from qanat.log.files import Buffer, File, Files, Lock
from qanat.log.partition_log import PartitionLog
from qanat.log.runtime.fsync_thread import FsyncThread
from qanat.log.runtime.log_runtime import LogRuntime
from qanat.log.settings import DirectorySettings, LogSettings
from qanat.model.ids import TopicPartition
from qanat.wire.records import decode_records

PATH = "/data"
AT = TopicPartition("t", 0)
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
IDENTITY = DirectoryIdentity("cluster", 1, "directory")
DEADLINE_S = 60.0

_generations = itertools.count(1)


def opened(
    files: Files,
    catalogue: Catalogue | None = None,
    *,
    path: str = PATH,
    settings: DirectorySettings | None = None,
    topic_settings: LogSettings | None = None,
    identity: DirectoryIdentity = IDENTITY,
) -> LogDirectory:
    """A data directory, with a generation of its own."""
    chosen = topic_settings or log_settings(segment_bytes=600)
    return open_directory(
        files,
        path,
        settings or DirectorySettings(),
        catalogue or MemoryCatalogue(),
        identity,
        f"generation{next(_generations)}",
        lambda _: chosen,
    )


@asynccontextmanager
async def running(directory: LogDirectory, flusher: FsyncThread | None = None) -> AsyncIterator[LogRuntime]:
    """A directory at work, closed at the end."""
    runtime = LogRuntime(directory, lambda: NOW, flusher)
    await runtime.start()
    try:
        yield runtime
    finally:
        await runtime.close()


@asynccontextmanager
async def running_log(
    files: Files | None = None,
    *,
    catalogue: Catalogue | None = None,
    directory_settings: DirectorySettings | None = None,
    flusher: FsyncThread | None = None,
    **settings: object,
) -> AsyncIterator[tuple[LogRuntime, PartitionLog]]:
    """A runtime with one new log, in memory by default."""
    chosen = log_settings(**settings)
    directory = opened(files or MemoryFiles(), catalogue, settings=directory_settings, topic_settings=chosen)
    async with running(directory, flusher) as runtime:
        yield runtime, await runtime.create(AT, TOPIC_ID, chosen)


async def until(condition: Callable[[], bool]) -> None:
    """Let the others run until something is so."""
    async with asyncio.timeout(DEADLINE_S):
        while not condition():  # noqa: ASYNC110 (what is waited for happens on another thread)
            await asyncio.sleep(0.001)


async def produce(runtime: LogRuntime, log: PartitionLog, count: int = 1, content: bytes | None = None) -> None:
    """Append batches one after another, each with its acknowledgement."""
    for _ in range(count):
        appended = await runtime.append(log, content or batch(1), 0)
        await runtime.flushed(log, appended.last_offset + 1)


async def values_read(runtime: LogRuntime, log: PartitionLog, offset: int = 0) -> list[bytes | None]:
    """The values of all records from `offset` on, read step by step."""
    found: list[bytes | None] = []
    while offset < log.end_offset:
        read = await runtime.read(log, offset, 400)
        for view in read.views():
            for _, content in batches_in(view):
                found += [record.value for record in decode_records(content, LIMIT)]
        offset = read.next_offset
    return found


class WorkerBarrier:
    """A barrier that blocks a worker until the test opens it."""

    def __init__(self) -> None:
        self.is_reached = False
        self._open = Event()

    def __call__(self, _: str) -> None:
        self.is_reached = True
        assert self._open.wait(DEADLINE_S), "the test never opened the barrier"

    def open(self) -> None:
        self._open.set()


def pass_by(_: str) -> None:
    """What a watcher does that has nothing to object."""


class WatchedFiles:
    """Files that tell what is asked of them, and may be held up or refused on the way."""

    def __init__(self, files: Files) -> None:
        self.files = files
        self.acts: builtins.list[tuple[str, str]] = []
        """What was done to which path, in order."""
        self.before_sync: Callable[[str], None] = pass_by
        self.before_write: Callable[[str], None] = pass_by
        self.before_read: Callable[[str], None] = pass_by
        self.before_sync_directory: Callable[[str], None] = pass_by

    def count(self, act: str, path_ending: str = "") -> int:
        return sum(done == act and path.endswith(path_ending) for done, path in self.acts)

    def note(self, act: str, path: str) -> None:
        self.acts.append((act, path))

    def open(self, path: str, *, create: bool = False) -> WatchedFile:
        self.note("create" if create else "open", path)
        return WatchedFile(self, self.files.open(path, create=create))

    def exists(self, path: str) -> bool:
        return self.files.exists(path)

    def list(self, path: str) -> builtins.list[str]:
        return self.files.list(path)

    def make_directory(self, path: str) -> None:
        self.files.make_directory(path)

    def remove_directory(self, path: str) -> None:
        self.files.remove_directory(path)

    def rename(self, old: str, new: str) -> None:
        self.note("rename", new)
        self.files.rename(old, new)

    def remove(self, path: str) -> None:
        self.note("remove", path)
        self.files.remove(path)

    def sync_directory(self, path: str) -> None:
        self.before_sync_directory(path)
        self.files.sync_directory(path)
        self.note("sync_directory", path)

    def lock(self, path: str) -> Lock:
        return self.files.lock(path)


class WatchedFile:
    """One of them."""

    def __init__(self, files: WatchedFiles, file: File) -> None:
        self._files = files
        self._file = file

    @property
    def path(self) -> str:
        return self._file.path

    @property
    def key_id(self) -> str | None:
        return self._file.key_id

    def size(self) -> int:
        return self._file.size()

    def write(self, chunks: Sequence[Buffer], position: int) -> int:
        self._files.before_write(self.path)
        return self._file.write(chunks, position)

    def read(self, position: int, length: int) -> bytearray:
        self._files.before_read(self.path)
        self._files.note("read", self.path)
        return self._file.read(position, length)

    def view(self, length: int) -> memoryview:
        return self._file.view(length)

    def is_resident(self, position: int, length: int) -> bool:
        return self._file.is_resident(position, length)

    def truncate(self, length: int) -> None:
        self._file.truncate(length)

    def sync(self) -> None:
        self._files.before_sync(self.path)
        self._file.sync()
        self._files.note("sync", self.path)

    def drop_cache(self) -> None:
        self._file.drop_cache()

    def rename(self, path: str) -> None:
        self._files.note("rename", path)
        self._file.rename(path)

    def close(self) -> None:
        self._files.note("close", self.path)
        self._file.close()
