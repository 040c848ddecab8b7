"""The pid file of a local cluster: a lock on its data directory, and the pids of its processes for other commands.

The kernel releases the lock with the process, even if it is killed. The pid file alone is not enough: after a crash its
process id may belong to another process, in a container often to this one.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qanat.adapters.os_files import OsLock
from qanat.app.cluster.cluster_plan import BrokerPlan
from qanat.app.settings.source_value import is_secret
from qanat.model.errors import DirectoryLockedError, QanatError

PID_FILE = "cluster.json"
LOCK_FILE = "cluster.lock"


class ClusterError(QanatError):
    """A local cluster that cannot start, or does not run."""


@dataclass(frozen=True, slots=True)
class BrokerProcess:
    """A broker of the local cluster and its process."""

    node_id: int
    address: str
    pid: int


@dataclass(frozen=True, slots=True)
class PidFile:
    """The processes of a running local cluster."""

    supervisor: int
    brokers: tuple[BrokerProcess, ...]
    settings: Mapping[str, str] = field(default_factory=dict)
    """Those of the first broker's command line, without secrets."""
    config: str | None = None
    """Its settings file."""

    def pid_of(self, node_id: int) -> int | None:
        """A broker's process id; None where the supervisor no longer restarts it."""
        return next((one.pid for one in self.brokers if one.node_id == node_id), None)


@contextlib.contextmanager
def locked(data_dir: str) -> Iterator[None]:
    """Create the data directory and lock it against other clusters."""
    folder = Path(data_dir)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise ClusterError(f"cannot create the data directory {data_dir}: {fault.strerror}; choose another") from None
    try:
        lock = OsLock(str(folder / LOCK_FILE))
    except DirectoryLockedError:
        running = read_pid_file(data_dir)
        who = "a cluster is being started" if running is None else f"a cluster of process {running.supervisor} runs"
        raise ClusterError(
            f"{who} on {data_dir}: stop it with qanat cluster down --data-dir {data_dir}, or choose another --data-dir"
        ) from None
    try:
        _delete_pid_file(data_dir)
        yield
    finally:
        _delete_pid_file(data_dir)
        lock.release()


def write_pid_file(
    data_dir: str,
    processes: Mapping[BrokerPlan, int],
    settings: Mapping[str, str] | None = None,
    config: str | None = None,
) -> None:
    """Write the pids for other commands of this machine, and the settings without secrets. The caller holds the
    lock."""
    shown = {name: value for name, value in (settings or {}).items() if value.startswith("${") or not is_secret(name)}
    content = {
        "supervisor": os.getpid(),
        "settings": shown,
        "config": config,
        "brokers": [{"id": one.node_id, "address": one.address, "pid": pid} for one, pid in processes.items()],
    }
    path = Path(data_dir) / PID_FILE
    unfinished = path.with_suffix(".new")
    unfinished.write_text(json.dumps(content, indent=2) + "\n")
    unfinished.replace(path)


def read_pid_file(data_dir: str) -> PidFile | None:
    """The processes that run on a data directory; None where there are none yet."""
    try:
        content: dict[str, Any] = json.loads((Path(data_dir) / PID_FILE).read_text())
        OsLock(str(Path(data_dir) / LOCK_FILE)).release()
    except DirectoryLockedError:
        brokers = tuple(BrokerProcess(one["id"], one["address"], one["pid"]) for one in content["brokers"])
        return PidFile(content["supervisor"], brokers, content.get("settings", {}), content.get("config"))
    except (OSError, ValueError, QanatError):
        return None
    return None


def is_locked(data_dir: str) -> bool:
    """Whether a cluster runs on a data directory, or is starting."""
    try:
        OsLock(str(Path(data_dir) / LOCK_FILE)).release()
    except DirectoryLockedError:
        return True
    return False


def _delete_pid_file(data_dir: str) -> None:
    with contextlib.suppress(OSError):
        (Path(data_dir) / PID_FILE).unlink()
