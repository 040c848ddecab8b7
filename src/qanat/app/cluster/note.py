"""Who runs a local cluster: a lock on its data directory while somebody does, and a note for the other commands.

The lock is the kernel's and goes with the process, be it killed. The note alone would not do: after a crash its
process id may be anybody's, in a container often our own.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qanat.adapters.os_files import OsLock
from qanat.app.cluster.plan import BrokerPlan
from qanat.model.errors import DirectoryLockedError, QanatError

NOTE_FILE = "cluster.json"
LOCK_FILE = "cluster.lock"


class ClusterError(QanatError):
    """A local cluster that cannot be started, or is not there."""


@dataclass(frozen=True, slots=True)
class NotedBroker:
    """One of its brokers."""

    node_id: int
    address: str
    pid: int


@dataclass(frozen=True, slots=True)
class Note:
    """What runs."""

    supervisor: int
    brokers: tuple[NotedBroker, ...]

    def pid_of(self, node_id: int) -> int | None:
        """A broker's process; None where it was given up."""
        return next((one.pid for one in self.brokers if one.node_id == node_id), None)


@contextlib.contextmanager
def held(data_dir: str) -> Iterator[None]:
    """Make the data directory, and be the only one that runs a cluster on it."""
    folder = Path(data_dir)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise ClusterError(f"cannot make the data directory {data_dir}: {fault.strerror}; choose another") from None
    try:
        lock = OsLock(str(folder / LOCK_FILE))
    except DirectoryLockedError:
        running = read_note(data_dir)
        who = "a cluster is being started" if running is None else f"a cluster of process {running.supervisor} runs"
        raise ClusterError(
            f"{who} on {data_dir}: stop it with qanat cluster down --data-dir {data_dir}, or choose another --data-dir"
        ) from None
    try:
        _forget(data_dir)
        yield
    finally:
        _forget(data_dir)
        lock.release()


def write_note(data_dir: str, processes: Mapping[BrokerPlan, int]) -> None:
    """Tell other commands of this machine what runs; by whoever holds the data directory."""
    content = {
        "supervisor": os.getpid(),
        "brokers": [{"id": one.node_id, "address": one.address, "pid": pid} for one, pid in processes.items()],
    }
    path = Path(data_dir) / NOTE_FILE
    codec_worker = path.with_suffix(".new")
    codec_worker.write_text(json.dumps(content, indent=2) + "\n")
    codec_worker.replace(path)


def read_note(data_dir: str) -> Note | None:
    """What runs on a data directory; None where nothing does, or not yet."""
    try:
        content: dict[str, Any] = json.loads((Path(data_dir) / NOTE_FILE).read_text())
        OsLock(str(Path(data_dir) / LOCK_FILE)).release()
    except DirectoryLockedError:
        brokers = tuple(NotedBroker(one["id"], one["address"], one["pid"]) for one in content["brokers"])
        return Note(content["supervisor"], brokers)
    except (OSError, ValueError, QanatError):
        return None
    return None


def is_held(data_dir: str) -> bool:
    """Whether somebody runs a cluster on a data directory, or is about to."""
    try:
        OsLock(str(Path(data_dir) / LOCK_FILE)).release()
    except DirectoryLockedError:
        return True
    return False


def _forget(data_dir: str) -> None:
    with contextlib.suppress(OSError):
        (Path(data_dir) / NOTE_FILE).unlink()
