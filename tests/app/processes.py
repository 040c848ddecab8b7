"""Real processes: a `qanat start` that tests can query and stop, and commands run to their end."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

QANAT = (sys.executable, "-m", "qanat.app")
TIMEOUT_SECONDS = 180


def clean_environment(**more: str) -> dict[str, str]:
    """This process' environment without anything that is a setting of ours."""
    foreign = ("QANAT_", "NODE_ID", "BROKER_PORT", "DATA_DIR", "HTTP_PORT", "REGISTRY_URL")
    own = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    # No HTTP unless a test asks for it: its port is one for all.
    return own | {"XDG_CONFIG_HOME": "/nonexistent", "QANAT_HTTP_PORT": "-1"} | more


@dataclass
class RunningBroker:
    """A broker process whose log is JSON in a file."""

    process: subprocess.Popen[bytes]
    log: Path
    started: dict[str, object] = field(default_factory=dict)

    @property
    def address(self) -> str:
        return str(self.started["address"])

    def events(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]

    def wait_until_started(self) -> None:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while time.monotonic() < deadline:
            found = [line for line in self.events() if line["event"] == "started"]
            if found:
                self.started = found[0]
                return
            assert self.process.poll() is None, self.log.read_text()[-2000:]
            time.sleep(0.02)
        raise AssertionError(f"the broker did not start: {self.log.read_text()[-2000:]}")

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(TIMEOUT_SECONDS)


@contextlib.contextmanager
def running_broker(
    folder: Path,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    command: str = "start",
    log_level: str = "info",
) -> Iterator[RunningBroker]:
    """A broker with these arguments; killed at the end if it is still there."""
    log = folder / f"broker-{len(list(folder.glob('broker-*.log')))}.log"
    line = [*QANAT, command, "--log-format", "json", "--log-level", log_level, *arguments]
    with log.open("wb") as stderr, (folder / "banner.txt").open("wb") as stdout:
        process = subprocess.Popen(
            line, cwd=folder, stdout=stdout, stderr=stderr, env=clean_environment(**(environment or {}))
        )
        broker = RunningBroker(process, log)
        try:
            broker.wait_until_started()
            yield broker
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


def qanat(*arguments: str, given: str | bytes = b"", **environment: str) -> subprocess.CompletedProcess[str]:
    """Run one command to its end."""
    data = given.encode() if isinstance(given, str) else given
    result = subprocess.run(
        [*QANAT, *arguments],
        input=data,
        capture_output=True,
        timeout=TIMEOUT_SECONDS,
        env=clean_environment(**environment),
        check=False,
    )
    return subprocess.CompletedProcess(result.args, result.returncode, result.stdout.decode(), result.stderr.decode())
