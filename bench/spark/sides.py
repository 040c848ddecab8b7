"""The sides: each a Spark session in a process of its own that waits for its turn, with the broker it talks to."""

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
from verify.connector.fetching import VERSION as CONNECTOR_VERSION
from verify.connector.fetching import Connector, ConnectorUnavailableError, have_connector

from bench.memory import have_memory
from bench.servers import Server, kafka, qanat
from bench.workloads import UNFLUSHED

PARTITIONS = 4
READ_TOPIC = "bench-read"
_AROUND_BYTES = 12
"""Of a record in a batch."""
_WRITES = ("write", "once", "fill")
_COPIES = 4
"""Of rows, as much memory is had at hand for a write: staged and in a log, and twice that, for the kernel does not
always give first what was free last."""
_TOPIC_S = 60.0
_END_S = 60.0
_ROOT = Path(__file__).resolve().parents[2]


class EngineFailedError(Exception):
    """A Spark session did not do what it was told; says what it wrote last."""


@dataclass(frozen=True, slots=True)
class Side:
    """What is compared: by name, with its broker and its connector where it has one."""

    name: str
    server: Server | None = None
    connector: Connector | None = None

    @property
    def what(self) -> str:
        """As a report names it."""
        if self.connector is not None:
            return f"Spark's connector {CONNECTOR_VERSION} on {self.server}"
        return f'format("qanat") on {self.server}' if self.server is not None else "a source and a sink in memory"


def sides(is_connector_skipped: bool) -> tuple[list[Side], list[str]]:
    """In the order of their turns, and a sentence on who cannot be had."""
    found, notes = [Side("ceiling"), Side("qanat", qanat())], []
    try:
        if is_connector_skipped:
            raise ConnectorUnavailableError("it was not wanted")
        found.append(Side("kafka", kafka(have_jars()), have_connector()))
    except (JarsUnavailableError, ConnectorUnavailableError) as fault:
        notes.append(f"Spark's own connector on Apache Kafka is not part of this run: {fault}.")
    return found, notes


class Took(NamedTuple):
    """Seconds of the work itself, and before it began."""

    work_s: float
    start_s: float


class Engine:
    """A Spark session at work."""

    def __init__(
        self, side: Side, process: subprocess.Popen[str], address: str, complaints: Path, fills_bytes: int
    ) -> None:
        """`fills_bytes`: as much memory as a write fills, in page cache above all."""
        self.side = side
        self._fills_bytes = fills_bytes
        self._process = process
        self._complaints = complaints
        self._admin = AdminClient({"bootstrap.servers": address, "log_level": 0}) if side.server is not None else None

    def versions(self) -> dict[str, str]:
        """What it says when it is there: to be asked once, before anything is run."""
        told: dict[str, str] = self._answer()
        return told

    def run(self, workload: str, number: int) -> Took:
        """On topics made for it; what it wrote is gone afterwards."""
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
        """The same on both sides: when to write to disk is left to the kernel, Kafka's default and not Qanat's."""
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
    """A session that is starting, and its broker; both are ended afterwards."""
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
        with complaints.open("w") as told:
            process = subprocess.Popen(
                [python, *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=told,
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
