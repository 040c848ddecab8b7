"""A cluster of broker processes that are started, stopped and killed one by one, for tests and measurements.

Unlike with `qanat cluster up`, a broker that ends is not restarted, and each may have settings of its own.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._metadata import ClusterMetadata
from confluent_kafka.cimpl import KafkaError, KafkaException, NewTopic

TIMEOUT_S = 90.0
_LONG_S = 300.0
_LOOK_S = 0.05


class BrokerProcesses:
    """Brokers 0 to n-1 over one data directory, as a context; brokers that still run at its end are killed."""

    def __init__(
        self,
        folder: Path,
        count: int = 3,
        settings: Mapping[str, str] | None = None,
        own: Mapping[int, Mapping[str, str]] | None = None,
        *,
        first: int | None = None,
        environment: Mapping[str, str] | None = None,
        command: Callable[[BrokerProcesses, int], Sequence[str]] | None = None,
    ) -> None:
        """`first`: how many are started at the beginning, where not all; `own`: settings by broker; `command`: the
        command line of a broker, where it is not Qanat."""
        self.folder = folder
        self.settings = {"default.replication.factor": "3", "min.insync.replicas": "2", **(settings or {})}
        self.own = own or {}
        self.environment = dict(environment or {})
        """Further environment variables of brokers that are started from now on."""
        self._first = count if first is None else first
        self._command = command or BrokerProcesses._qanat
        ports = free_ports(2 * count)
        self.ports, self.inter_broker_ports = ports[:count], ports[count:]
        self.processes: dict[int, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        try:
            for node_id in range(self._first):
                self.start(node_id)
            self.until(lambda seen: len(seen.brokers) == self._first, "every broker is registered")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
            process.wait()

    @property
    def bootstrap(self) -> str:
        return ",".join(self.address(node_id) for node_id in range(len(self.ports)))

    def address(self, node_id: int) -> str:
        return f"127.0.0.1:{self.ports[node_id]}"

    def log(self, node_id: int) -> str:
        """The log of a broker, of all its runs."""
        return self._log_file(node_id).read_text()

    def _log_file(self, node_id: int) -> Path:
        return self.folder / f"broker-{node_id}.log"

    # Processes

    def start(self, node_id: int) -> None:
        """Start a broker; does not wait until it serves."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("QANAT_")}
        with self._log_file(node_id).open("ab") as log:
            self.processes[node_id] = subprocess.Popen(
                self._command(self, node_id),
                cwd=self.folder,
                env=environment | {"XDG_CONFIG_HOME": "/nonexistent"} | self.environment,
                stdout=log,
                stderr=log,
            )

    def _qanat(self, node_id: int) -> Sequence[str]:
        settings = {
            **self.settings,
            **self.own.get(node_id, {}),
            "inter.broker.port": str(self.inter_broker_ports[node_id]),
            "http.port": "-1",
        }
        return [
            *(sys.executable, "-m", "qanat.app", "start", "--log-format", "json"),
            *("--port", str(self.ports[node_id]), "--node-id", str(node_id), "--data-dir", str(self.folder / "data")),
            *(word for name, value in settings.items() for word in ("-X", f"{name}={value}")),
        ]

    def kill(self, node_id: int) -> None:
        """Kill a broker with -9."""
        self.processes[node_id].kill()
        self.processes[node_id].wait()

    def stop(self, node_id: int) -> int:
        """Shut a broker down cleanly; returns its exit code."""
        self.processes[node_id].send_signal(signal.SIGTERM)
        return self.processes[node_id].wait(TIMEOUT_S)

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run `qanat ...` against the cluster, to its end."""
        command = [sys.executable, "-m", "qanat.app", *words, "-b", self.bootstrap]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=600, check=False)

    # Metadata

    def look(self, topic: str | None = None) -> ClusterMetadata:
        """The metadata of the cluster."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        return admin.list_topics(topic, timeout=10) if topic else admin.list_topics(timeout=10)

    def until(self, condition: Callable[[ClusterMetadata], bool], what: str, timeout_s: float = TIMEOUT_S) -> None:
        """Wait until the cluster's metadata satisfies a condition."""
        deadline = time.monotonic() + timeout_s
        while True:
            for node_id, process in self.processes.items():
                code = process.poll()
                assert code in (None, 0, -signal.SIGKILL, -signal.SIGTERM), (
                    f"broker {node_id}: {self.log(node_id)[-2000:]}"
                )
            try:
                if condition(self.look()):
                    return
            except Exception as fault:  # noqa: BLE001 - no broker answers yet; the deadline bounds the wait
                last = str(fault)
            else:
                last = "the condition does not hold"
            assert time.monotonic() < deadline, f"timed out: {what} ({last})"
            time.sleep(_LOOK_S)

    def until_in_sync(self, topic: str, timeout_s: float = TIMEOUT_S) -> None:
        """Wait until every replica of a topic is in sync and every partition has a leader."""

        def is_in_sync(seen: ClusterMetadata) -> bool:
            rows = seen.topics[topic].partitions.values() if topic in seen.topics else ()
            return bool(rows) and all(one.leader >= 0 and len(one.isrs) == len(one.replicas) for one in rows)

        self.until(is_in_sync, f"{topic} is in sync everywhere", timeout_s)

    def create(self, topic: str, partitions: int = 1, replicas: int = 3, **configs: str) -> None:
        """Create a topic and wait until it is in sync."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "socket.timeout.ms": int(_LONG_S) * 1000})
        wanted = [NewTopic(topic, partitions, replicas, config=configs)]
        # A broker answers when it has its replicas, which takes a while where there are thousands.
        making = admin.create_topics(wanted, request_timeout=_LONG_S, operation_timeout=_LONG_S)[topic]
        try:
            making.result(_LONG_S)
        except KafkaException as fault:
            # librdkafka asks again where its connection broke before the answer came.
            if fault.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
        self.until_in_sync(topic, _LONG_S)


def free_ports(count: int) -> list[int]:
    """Ports that are free now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
