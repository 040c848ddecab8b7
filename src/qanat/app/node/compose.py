"""The logs of one data directory: real files, runtime and maintenance put together."""

from __future__ import annotations

import time
import uuid

from qanat.log.directories.directory import LogDirectory, TopicSettings, open_directory
from qanat.log.directories.identity import DirectoryIdentity
from qanat.log.directories.storage_engine import StorageEngine
from qanat.log.runtime.fsync_thread import FsyncThread
from qanat.log.runtime.log_runtime import LogRuntime
from qanat.log.runtime.maintenance import Maintenance
from qanat.log.settings import DirectorySettings, LogSettings

LOCAL_CLUSTER = "qanat-local"
"""Cluster id of logs that no broker has claimed: benchmarks, demonstrations, tools."""


def clock_ms() -> int:
    return time.time_ns() // 1_000_000


def default_settings(topic: str) -> LogSettings:
    return LogSettings()


def open_log_directory(
    path: str,
    *,
    engine: str | StorageEngine = "file",
    settings: DirectorySettings | None = None,
    topic_settings: TopicSettings = default_settings,
    cluster_id: str = LOCAL_CLUSTER,
    node_id: int = 0,
) -> LogDirectory:
    """Lock and open a data directory; recovers every partition that needs it."""
    settings = settings or DirectorySettings()
    chosen = _named_engine(engine, settings) if isinstance(engine, str) else engine
    path = path.rstrip("/") or "/"
    identity = DirectoryIdentity(cluster_id, node_id, str(uuid.uuid4()))
    return open_directory(
        chosen.files, path, settings, chosen.catalogue(path), identity, uuid.uuid4().hex, topic_settings
    )


def _named_engine(name: str, settings: DirectorySettings) -> StorageEngine:
    # Imported late: a broker with a built-in engine need not search installed packages.
    from qanat.app.node.plugins import storage_engine

    return storage_engine(name, settings)


class Logs:
    """A data directory at work: its runtime and its maintenance, started and stopped together."""

    def __init__(self, directory: LogDirectory) -> None:
        self.runtime = LogRuntime(directory, clock_ms, FsyncThread(time.perf_counter))
        self.upkeep = Maintenance(self.runtime, time.sleep)

    async def __aenter__(self) -> LogRuntime:
        await self.runtime.start()
        self.upkeep.start()
        return self.runtime

    async def __aexit__(self, *_: object) -> None:
        try:
            await self.upkeep.close()
        finally:
            await self.runtime.close()
