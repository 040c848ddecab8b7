"""The systems: their programs, their settings in each of the two tables, and their drivers."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from tools.servers import FIRST_REQUEST, Running

from bench.clients import Client
from bench.peers import rabbitmq, redpanda
from bench.peers.launching import Launch, launched
from qanat import __version__

CLIENTS_COMMAND = "pip install -c constraints.txt -e '.[peers]'"
SYNC_INTERVAL_SINCE = (2, 10)
"""The first nats-server that can sync before it acknowledges."""
_VERSION = re.compile(r"\d+(?:\.\d+)+")
_ASKING_SECONDS = 30


@dataclass(frozen=True, slots=True)
class System:
    """One system, as a name in the report and as programs on this machine."""

    name: str
    program: str
    install: str
    """The command that installs it."""
    version: Callable[[str], str]
    """The version of the program at a path."""
    driver: str
    """Module of the driver."""
    library: str
    """Module that the driver imports: without it the system cannot be driven."""
    prepare: Callable[[bool, str, Path, int], Launch]
    settings: Callable[[bool], str]
    """Its settings, for the report."""
    why_not: Callable[[bool, str], str] = lambda is_durable, version: ""
    """Why its version is not in the table with a sync per acknowledgement, or in the one without."""


@dataclass(frozen=True, slots=True)
class Present:
    """A system that this machine has."""

    system: System
    program: str
    version: str
    client: Client

    def __str__(self) -> str:
        return f"{self.system.name} {self.version}".strip()

    def running(self, folder: Path, *, is_durable: bool) -> AbstractContextManager[Running]:
        """A context in which it runs on a new folder and has answered; shut down cleanly at its end."""
        return launched(folder, lambda inside, port: self.system.prepare(is_durable, self.program, inside, port))

    def why_not(self, *, is_durable: bool) -> str:
        return self.system.why_not(is_durable, self.version)


def found(systems: Sequence[System]) -> tuple[list[Present], list[str]]:
    """The installed systems, and a sentence on each other one."""
    present: list[Present] = []
    notes: list[str] = []
    for system in systems:
        program = located(system.program)
        if program is None:
            notes.append(f"{system.name} is not part of this run: no {system.program} here; {system.install}")
        elif importlib.util.find_spec(system.library) is None:
            notes.append(
                f"{system.name} is not part of this run: no Python client {system.library} here; {CLIENTS_COMMAND}"
            )
        else:
            present.append(Present(system, program, system.version(program), _client(system)))
    return present, notes


def located(program: str) -> str | None:
    """The path of a program; servers may lie in folders outside of PATH."""
    beside_python = Path(sys.executable).with_name(program)
    if beside_python.exists():
        return str(beside_python)
    return shutil.which(program) or shutil.which(program, path="/usr/local/sbin:/usr/sbin:/sbin")


def version_in(text: str) -> str:
    """The first version number in a program's output."""
    match = _VERSION.search(text)
    return match.group() if match else ""


def _asked(program: str) -> str:
    asking = [program, "--version"]
    said = subprocess.run(asking, capture_output=True, text=True, check=False, timeout=_ASKING_SECONDS)
    return version_in(said.stdout + said.stderr)


def _client(system: System) -> Client:
    command = (sys.executable, "-m", system.driver)
    said = subprocess.run([*command, "version"], capture_output=True, text=True, check=True, timeout=_ASKING_SECONDS)
    return Client(command, said.stdout.strip())


def _qanat(is_durable: bool, program: str, folder: Path, port: int) -> Launch:
    flags = ["--port", str(port), "--data-dir", str(folder / "data"), "--log-level", "warning"]
    return Launch([program, "start", *flags], FIRST_REQUEST)


def _qanat_settings(is_durable: bool) -> str:
    return f"`qanat start`; topics with flush.messages={'1' if is_durable else 2**63 - 1}"


def _nats(is_durable: bool, program: str, folder: Path, port: int) -> Launch:
    syncing = "sync_interval: always" if is_durable else ""
    settings = folder / "nats.conf"
    settings.write_text(
        f'host: 127.0.0.1\nport: {port}\njetstream {{\n  store_dir: "{folder / "data"}"\n  {syncing}\n}}\n'
    )
    return Launch([program, "--config", str(settings)], b"CONNECT {}\r\nPING\r\n", b"PONG")


def _nats_settings(is_durable: bool) -> str:
    syncing = "sync_interval: always" if is_durable else "sync_interval at its default of 2 minutes"
    return f"JetStream, streams in files, one replica, {syncing}"


def _nats_why_not(is_durable: bool, version: str) -> str:
    if not is_durable or _numbers(version) >= SYNC_INTERVAL_SINCE:
        return ""
    return f"nats-server {version} has no `sync_interval` and acknowledges before it syncs; 2.10 (Debian 13) can"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split("."))) if version else ()


def _redis(is_durable: bool, program: str, folder: Path, port: int) -> Launch:
    (folder / "data").mkdir()
    flags = ["--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder / "data"), *_redis_flags(is_durable)]
    return Launch([program, *flags], b"PING\r\n", b"+PONG")


def _redis_flags(is_durable: bool) -> list[str]:
    appending = ["--appendonly", "yes", "--appendfsync", "always" if is_durable else "no"]
    return [*appending, "--save", "", "--auto-aof-rewrite-percentage", "0"]


def _redis_settings(is_durable: bool) -> str:
    fsync = "always" if is_durable else "no"
    return f"appendonly yes, appendfsync {fsync}, no snapshots, no rewrites of the file; all messages in memory as well"


QANAT = System(
    "Qanat",
    "qanat",
    "make setup",
    lambda _: __version__,
    "bench.peers.drive_kafka",
    "confluent_kafka",
    _qanat,
    _qanat_settings,
)
NATS = System(
    "NATS JetStream",
    "nats-server",
    "apt-get install nats-server",
    _asked,
    "bench.peers.drive_nats",
    "nats",
    _nats,
    _nats_settings,
    _nats_why_not,
)
REDIS = System(
    "Redis Streams",
    "redis-server",
    "apt-get install redis-server",
    _asked,
    "bench.peers.drive_redis",
    "redis",
    _redis,
    _redis_settings,
)
RABBITMQ = System(
    "RabbitMQ streams",
    "rabbitmq-server",
    "apt-get install rabbitmq-server",
    rabbitmq.version,
    "bench.peers.drive_rabbitmq",
    "rstream",
    rabbitmq.prepare,
    rabbitmq.settings,
    rabbitmq.why_not,
)
REDPANDA = System(
    "Redpanda",
    "redpanda",
    redpanda.INSTALL,
    _asked,
    "bench.peers.drive_kafka",
    "confluent_kafka",
    redpanda.prepare,
    redpanda.settings,
    redpanda.why_not,
)
SYSTEMS = (QANAT, NATS, REDIS, RABBITMQ, REDPANDA)
KEYS = {"qanat": QANAT, "nats": NATS, "redis": REDIS, "rabbitmq": RABBITMQ, "redpanda": REDPANDA}
