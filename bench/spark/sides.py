"""The sides: each a Spark session in a process of its own, with its broker."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from tools.kafka_jars import JarsUnavailableError, have_jars
from tools.machines import THIS, Machine
from tools.servers import Server, kafka, qanat
from tools.spark_connector import VERSION as CONNECTOR_VERSION
from tools.spark_connector import Connector, ConnectorUnavailableError, have_connector

from bench.memory import have_memory
from bench.workloads import UNFLUSHED

PARTITIONS = 4
READ_TOPIC = "bench-read"
_AROUND_BYTES = 12
"""Overhead of a record in a batch."""
_WRITES = ("write", "once", "fill")
_COPIES = 4
"""Memory that is used before a write, in multiples of the rows: staged and in a log, and twice that, because the kernel
does not always return the pages that were freed last."""
_TOPIC_S = 60.0
_END_S = 60.0
_ROOT = Path(__file__).resolve().parents[2]


class EngineFailedError(Exception):
    """A Spark session failed; the message holds the end of its output."""


@dataclass(frozen=True, slots=True)
class Side:
    """One side: its name, its broker and its connector, where it has them."""

    name: str
    server: Server | None = None
    connector: Connector | None = None

    @property
    def what(self) -> str:
        """Its name in a report."""
        if self.connector is not None:
            return f"Spark's connector {CONNECTOR_VERSION} on {self.server}"
        return f'format("qanat") on {self.server}' if self.server is not None else "a source and a sink in memory"


def sides(is_connector_skipped: bool, machine: Machine = THIS) -> tuple[list[Side], list[str]]:
    """The sides in the order of their turns, and a sentence on each that is not available; brokers are on `machine`."""
    found, notes = [Side("ceiling"), Side("qanat", qanat(machine=machine))], []
    try:
        if is_connector_skipped:
            raise ConnectorUnavailableError("it was not wanted")
        found.append(Side("kafka", kafka(have_jars(), machine), have_connector()))
    except (JarsUnavailableError, ConnectorUnavailableError) as fault:
        notes.append(f"Spark's own connector on Apache Kafka is not part of this run: {fault}.")
    return found, notes


class Took(NamedTuple):
    """Seconds of the work itself, and before it began."""

    work_s: float
    start_s: float


class Engine:
    """A running Spark session."""

    def __init__(
        self, side: Side, process: subprocess.Popen[str], address: str, complaints: Path, fills_bytes: int
    ) -> None:
        """`fills_bytes`: the memory that a write fills, mostly page cache."""
        self.side = side
        self._fills_bytes = fills_bytes
        self._process = process
        self._complaints = complaints
        self._admin = AdminClient({"bootstrap.servers": address, "log_level": 0}) if side.server is not None else None

    def versions(self) -> dict[str, str]:
        """Its versions, which it prints at its start: call this once, before any run."""
        versions: dict[str, str] = self._answer()
        return versions

    def run(self, workload: str, number: int) -> Took:
        """Run a workload on a topic of its own, which is deleted afterwards."""
        topic = {"write": f"bench-write-{number}", "once": f"bench-once-{number}", "fill": READ_TOPIC}.get(workload)
        if topic is not None:
            self._make(topic)
        assert self._process.stdin is not None
        self._process.stdin.write(f"{workload} {number}\n")
        self._process.stdin.flush()
        assert self._answer() == "ready", "a side says when it is warm"
        have_memory(self._fills_bytes if workload in _WRITES else 0)
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        took = Took(*self._answer())
        if topic not in (None, READ_TOPIC) and self._admin is not None:
            self._admin.delete_topics([topic])[topic].result(_TOPIC_S)
        return took

    def _make(self, topic: str) -> None:
        """Create a topic, the same on both sides: flushing is left to the kernel, Kafka's default and not Qanat's."""
        if self._admin is not None:
            wanted = NewTopic(topic, PARTITIONS, 1, config=dict(UNFLUSHED))
            self._admin.create_topics([wanted])[topic].result(_TOPIC_S)

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise EngineFailedError(f"{self.side.name}: {self._complaints.read_text(errors='replace')[-3000:]}")
        return json.loads(line)


@contextlib.contextmanager
def started(side: Side, records: int, size: int, folder: Path) -> Iterator[Engine]:
    """A starting session and its broker; both are ended afterwards."""
    folder.mkdir()
    complaints = folder / "complaints"
    with contextlib.ExitStack() as stack:
        address = stack.enter_context(side.server.running(folder / "broker")).address if side.server else "-"
        command = [str(Path(__file__).with_name("engine.py")), side.name, address, str(records), str(size)]
        command.append(str(folder / "scratch"))
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK_", "SPARK_"))}
        environment["PYTHONPATH"] = os.pathsep.join([str(_ROOT), environment.get("PYTHONPATH", "")])
        python = sys.executable
        if side.connector is not None:
            python, command = str(side.connector.python), [*command, side.connector.class_path]
            del environment["PYTHONPATH"]
        with complaints.open("w") as errors:
            process = subprocess.Popen(
                [python, *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=folder,
                env=environment,
            )
        stack.callback(_end, process)
        yield Engine(side, process, address, complaints, _COPIES * records * (size + _AROUND_BYTES))


def _end(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(OSError):
        if process.stdin is not None:
            process.stdin.close()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
