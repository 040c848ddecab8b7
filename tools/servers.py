"""Server processes: Qanat and Apache Kafka, each on loopback or another machine, on a data folder of its own.

Both are started as their users start them: `qanat start`, and Kafka with the heap and the collector of its start
script. Further settings are settings of topics, the same on both sides.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from qanat import __version__
from tools.kafka_jars import VERSION, java_command
from tools.machines import THIS, Machine

START_SECONDS = 60.0
STOP_SECONDS = 30.0
_RETRY_SECONDS = 0.002
CLUSTER_ID = "cWFuYXQtYmVuY2gtMDAwMQ"
# ApiVersions, version 0, correlation id 1, no client id: the first request of any client.
FIRST_REQUEST = struct.pack(">ihhih", 10, 18, 0, 1, -1)
KAFKA_JVM = ("-Xmx1G", "-Xms1G", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35")
_PROPERTIES = """process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://{host}:{port},CONTROLLER://127.0.0.1:{controller_port}
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:{controller_port}
log.dirs={data}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""


class ServerFailedError(Exception):
    """A server did not start; the message holds the end of its output."""


class Running:
    """A server that has answered its first request."""

    def __init__(self, pids: Sequence[int], address: str, start_seconds: float, folder: Path | None = None) -> None:
        self.address = address
        self.folder = folder
        """The folder of a single server."""
        self.pids = tuple(pids)
        """Its processes: one, or one for each broker of a cluster."""
        self.start_seconds = start_seconds

    @property
    def pid(self) -> int:
        """The only process."""
        (pid,) = self.pids
        return pid


class Startable(Protocol):
    """One side of a comparison: a server, or several that make up a cluster."""

    def running(self, folder: Path) -> contextlib.AbstractContextManager[Running]:
        """A context in which it runs on a new folder and has answered; shut down cleanly at its end."""
        ...


class Server:
    """One server: `command` prepares a folder and returns the command that runs the server there."""

    def __init__(
        self,
        name: str,
        version: str,
        command: Callable[[Path, int], list[str]],
        tls: ssl.SSLContext | None = None,
        machine: Machine = THIS,
    ) -> None:
        """`tls` is how its first request is sent, where its listener has TLS."""
        self.name = name
        self.version = version
        self._command = command
        self._tls = tls
        self._machine = machine

    def __str__(self) -> str:
        return f"{self.name} {self.version}".strip()

    @contextlib.contextmanager
    def running(self, folder: Path) -> Iterator[Running]:
        """A context in which it runs and has answered, on a new folder or its own; shut down cleanly at its end."""
        folder.mkdir(parents=True, exist_ok=True)
        port = free_port()
        command = [*self._machine.before, *self._command(folder, port)]
        host = self._machine.host
        with (folder / "output").open("wb") as output:
            started_at = time.perf_counter()
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
            try:
                wait_for_answer(process, port, folder / "output", self._tls, host)
                yield Running([process.pid], f"{host}:{port}", time.perf_counter() - started_at, folder)
            finally:
                stop(process)


def qanat(settings: Mapping[str, object] | None = None, machine: Machine = THIS) -> Server:
    """A broker as its users start it, with these further settings."""
    further = dict(settings or {})
    if machine != THIS:
        further |= {"allow.unauthenticated.clients": "true", "host.name": machine.host}

    def command(folder: Path, port: int) -> list[str]:
        flags = ["--port", str(port), "--data-dir", str(folder / "data"), "--log-level", "warning"]
        flags += [part for name, value in further.items() for part in ("-X", f"{name}={value}")]
        return [str(Path(sys.executable).with_name("qanat")), "start", *flags]

    return Server("Qanat", __version__, command, machine=machine)


def kafka(jars: Path, machine: Machine = THIS) -> Server:
    """Kafka, broker and controller in one; its folder is formatted before the measurement."""

    def command(folder: Path, port: int) -> list[str]:
        properties = folder / "server.properties"
        ports = {"port": port, "controller_port": free_port()}
        properties.write_text(_PROPERTIES.format(host=machine.host, **ports, data=folder / "data"))
        tool = java_command(jars, "kafka.tools.StorageTool", "-XX:TieredStopAtLevel=1")
        arguments = ["format", "-t", CLUSTER_ID, "-c", str(properties)]
        subprocess.run([*tool, *arguments], check=True, capture_output=True, timeout=START_SECONDS)
        return [*java_command(jars, "kafka.Kafka", *KAFKA_JVM), str(properties)]

    return Server("Apache Kafka", VERSION, command, machine=machine)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for_answer(
    process: subprocess.Popen[bytes],
    port: int,
    output: Path,
    tls: ssl.SSLContext | None = None,
    host: str = THIS.host,
) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise ServerFailedError(f"the server ended with code {process.returncode}: {_end_of(output)}")
        with contextlib.suppress(OSError), _connected(host, port, tls) as client:
            client.sendall(FIRST_REQUEST)
            if client.recv(4):
                return
        time.sleep(_RETRY_SECONDS)
    raise ServerFailedError(f"no answer within {START_SECONDS:.0f} seconds: {_end_of(output)}")


def _connected(host: str, port: int, tls: ssl.SSLContext | None) -> socket.socket:
    client = socket.create_connection((host, port), timeout=5)
    try:
        return client if tls is None else tls.wrap_socket(client, server_hostname=host)
    except BaseException:
        client.close()
        raise


def _end_of(output: Path) -> str:
    return output.read_text(errors="replace")[-2000:].strip() or "it wrote nothing"


def stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
