"""The stage of a case: brokers, some with slow disks, and the load on them, all ended at its end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tools.brokers import BrokerProcesses

SETTINGS = {
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "offsets.topic.num.partitions": "3",
    "group.lag.interval.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
}
_SOURCE = Path(__file__).with_name("slow_disk.c")


class NoCompilerError(Exception):
    """Disks cannot be made slow here; the message says why."""


class Stage(BrokerProcesses):
    """Brokers 0 to n-1; `slow` has the environment of those with a slow disk."""

    def __init__(
        self,
        folder: Path,
        count: int = 1,
        settings: Mapping[str, str] | None = None,
        slow: Mapping[int, Mapping[str, str]] | None = None,
    ) -> None:
        super().__init__(folder, count, {**SETTINGS, **(settings or {})})
        self._slow = slow or {}
        self._library = _slow_disk(folder) if self._slow else None
        self._loads: list[subprocess.Popen[bytes]] = []
        self._pausing: list[threading.Event] = []

    def start(self, node_id: int) -> None:
        self.environment = {}
        if node_id in self._slow:
            self.environment = {"LD_PRELOAD": str(self._library), **self._slow[node_id]}
        super().start(node_id)

    def __exit__(self, *_: object) -> None:
        for ended in self._pausing:
            ended.set()
        for load in self._loads:
            load.kill()
            load.wait()
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
        super().__exit__()

    def topic(self, name: str, replicas: Sequence[list[int]], **configs: str) -> None:
        """Create a topic with these replicas by partition, the leader first."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.create_topics([NewTopic(name, len(replicas), replica_assignment=list(replicas), config=configs)])[
            name
        ].result(60)
        self.until_in_sync(name)

    def load(self, kind: str, **plan: Any) -> None:
        """Begin a load that goes on until the end (`load.py`)."""
        document = json.dumps({"bootstrap": self.bootstrap, **plan})
        line = [sys.executable, "-m", "verify.diagnosis.load", kind, document]
        with (self.folder / f"load-{len(self._loads)}.log").open("wb") as log:
            self._loads.append(subprocess.Popen(line, stdout=log, stderr=log, cwd=Path(__file__).parents[2]))

    def leaders(self, topic: str) -> dict[int, str]:
        """The address of every partition's leader."""
        rows = self.look(topic).topics[topic].partitions
        return {number: self.address(row.leader) for number, row in rows.items()}

    def stutter(self, node_id: int, stopped_s: float, running_s: float) -> None:
        """Stop and continue a broker again and again."""
        ended, process = threading.Event(), self.processes[node_id]

        def work() -> None:
            while not ended.is_set():
                process.send_signal(signal.SIGSTOP)
                ended.wait(stopped_s)
                process.send_signal(signal.SIGCONT)
                ended.wait(running_s)

        self._pausing.append(ended)
        threading.Thread(target=work, daemon=True).start()

    def fill(self, topic: str, size: int) -> None:
        """Write so many bytes, and wait until they are there."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 50, "queue.buffering.max.kbytes": 65536})
        value = os.urandom(10_000)
        for _ in range(size // len(value)):
            producer.produce(topic, value)
            while len(producer) > 2000:
                producer.poll(0.05)
        producer.flush(60)

    def forget_pages(self) -> None:
        """Drop the pages of all logs from memory."""
        for path in (self.folder / "data").rglob("*.log"):
            descriptor = os.open(path, os.O_RDONLY)
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)

    def diagnose(self, seconds: float) -> dict[str, Any]:
        """What the command says."""
        done = self.command("diagnose", "--seconds", f"{seconds:g}", "-o", "json", "--timeout", "60")
        if done.returncode not in (0, 1) or not done.stdout:
            raise RuntimeError(f"qanat diagnose: {done.stderr}")
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def failed_loads(self) -> list[str]:
        """What loads said that ended by themselves."""
        return [
            (self.folder / f"load-{number}.log").read_text()[-300:]
            for number, one in enumerate(self._loads)
            if one.poll() not in (None, 0)
        ]


def slow(folder: Path, where: str, *, sync_ms: float = 0, read_ms: float = 0) -> dict[str, str]:
    """The environment of a broker whose files below `where` of the data directory are slow."""
    return {
        "SLOW_DISK_PATH": str(folder / "data" / where),
        "SLOW_DISK_SYNC_MS": str(sync_ms),
        "SLOW_DISK_READ_MS": str(read_ms),
    }


def _slow_disk(folder: Path) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise NoCompilerError("there is no C compiler (cc), so no disk can be made slow: apt install gcc libc6-dev")
    library = folder / "slow_disk.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", str(library), str(_SOURCE), "-ldl"], check=True)
    return library
