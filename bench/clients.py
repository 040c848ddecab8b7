"""The driver of both sides: compiled from `driver.c` and its parts, or `driver_python` without a compiler.

Either is a process per workload: it connects, warms up, prints "ready", waits for "go", and prints its result.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

_PARTS = ("driver.c", "latency.c", "payloads.c", "crowd.c", "readers.c", "channel.c")
_SOURCES = tuple(Path(__file__).with_name(name) for name in _PARTS)
_LIMIT_SECONDS = 180.0
"""Longer than any workload takes: a driver that hangs is killed, and has failed."""


class DriverFailedError(Exception):
    """A workload did not complete; the message holds the driver's output."""


@dataclass(frozen=True, slots=True)
class Task:
    """One workload against one topic; `settings` are librdkafka's, or the topic's where it is created."""

    mode: str
    topic: str
    size: int = 0
    count: int = 0
    rate: int = 0
    settings: Mapping[str, str] | None = None

    def arguments(self, address: str) -> list[str]:
        settings = [f"{name}={value}" for name, value in (self.settings or {}).items()]
        return [self.mode, address, self.topic, str(self.size), str(self.count), str(self.rate), *settings]


@dataclass(frozen=True, slots=True)
class Client:
    """A driver: its command, and its name in the report."""

    command: tuple[str, ...]
    what: str
    security: Mapping[str, str] = field(default_factory=dict)
    """librdkafka's settings for every task, such as protocol and password."""

    def protected(self, security: Mapping[str, str]) -> Client:
        """The same driver with these settings."""
        return replace(self, security=security)

    def run(
        self,
        address: str,
        task: Task,
        on_go: Callable[[], None] = lambda: None,
        on_end: Callable[[], None] = lambda: None,
    ) -> dict[str, float]:
        """The driver's result; `on_go` and `on_end` are called just before and just after the measured part."""
        security = [f"client.{name}={value}" for name, value in self.security.items()]
        command = [*self.command, *task.arguments(address), *security]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as driver:
            assert driver.stdin is not None
            assert driver.stdout is not None
            watch = threading.Timer(_LIMIT_SECONDS, driver.kill)
            watch.daemon = True
            watch.start()
            if driver.stdout.readline().strip() == "ready":
                on_go()
                driver.stdin.write("go\n")
                driver.stdin.flush()
            result = driver.stdout.readline()
            on_end()
            _, complaint = driver.communicate()
            watch.cancel()
        if driver.returncode:
            raise DriverFailedError(f"{task.mode} on {task.topic}: {complaint.strip() or 'it did not come to its end'}")
        found: dict[str, float] = json.loads(result) if result.strip() else {}
        return found


_ALLOCATORS = {
    "jemalloc": ("-Wl,--no-as-needed", "-l:libjemalloc.so.2"),
    "the C library's malloc": (),
}
"""Best first. One thread of librdkafka allocates and another frees, message by message. In the C library's malloc
they wait for each other 57,000 times in 3 million messages where the broker leaves both processors to them, and half as
often where it does not: that lock would hide which broker is faster."""

_TLS = (("-lssl", "-lcrypto"), ("-DWITHOUT_TLS",))
"""Without OpenSSL's headers, many plain connections have no TLS."""


def make_client(folder: Path) -> Client:
    """The C driver, compiled into `folder`; the Python one where there is no compiler or no librdkafka to link."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return python_client()
    for (allocator, flags), tls in product(_ALLOCATORS.items(), _TLS):
        program = folder / "driver"
        command = [compiler, "-O2", "-o", str(program), *map(str, _SOURCES), *flags, *tls, "-lrdkafka", "-lpthread"]
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            version = subprocess.run([program, "version"], capture_output=True, text=True, check=True).stdout.strip()
            return Client((str(program),), f"bench/driver.c on librdkafka {version} and {allocator}")
    return python_client()


def python_client() -> Client:
    command = (sys.executable, "-m", "bench.driver_python")
    version = subprocess.run([*command, "version"], capture_output=True, text=True, check=True).stdout.strip()
    what = f"bench/driver_python.py on confluent-kafka with librdkafka {version} (the C driver could not be compiled)"
    return Client(command, what)
