"""The processes of the brokers, each on a machine and a disk of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from verify.chaos.disk import Condition, Disk
from verify.chaos.network import Network

PORT = 9092
_INTER_BROKER_PORT = 19092
_DIRECTORY_FAILED = b"data directory failed"
SETTINGS = (
    "default.replication.factor=3",
    "min.insync.replicas=2",
    "offsets.topic.num.partitions=4",
    "transaction.state.log.num.partitions=4",
    "broker.session.timeout.ms=3000",
    "replica.lag.time.max.ms=3000",
    "log.segment.bytes=4194304",
    "log.scrub.bytes.per.second=67108864",
    "group.initial.rebalance.delay.ms=0",
)
"""The defaults, except for timeouts that are longer than the faults: a broker is missed after three silent seconds."""


class Broker:
    """`qanat start` on one machine, started and killed any number of times."""

    def __init__(
        self, node_id: int, folder: Path, network: Network, library: Path | None, settings: Sequence[str]
    ) -> None:
        self.node_id = node_id
        self.machine = f"broker-{node_id}"
        self.address = f"{network.address(self.machine)}:{PORT}"
        self.data = folder / "data" / self.machine
        self.log = folder / f"{self.machine}.log"
        self.disk = Disk(self.data, folder / f"{self.machine}.disk", library)
        self._command = self._command_line(network, folder, settings)
        self._process: subprocess.Popen[bytes] | None = None
        self._run_starts_at = 0

    def _command_line(self, network: Network, folder: Path, settings: Sequence[str]) -> list[str]:
        address = network.address(self.machine)
        # The networks are of this run alone: no other host reaches them.
        all_settings = [
            *SETTINGS,
            "allow.unauthenticated.clients=true",
            f"inter.broker.port={_INTER_BROKER_PORT}",
            *settings,
        ]
        return [
            *network.inside(self.machine),
            *(sys.executable, "-m", "qanat.app", "start", "--host", address, "--port", str(PORT)),
            *("--node-id", str(self.node_id), "--data-dir", str(folder / "data")),
            *(word for setting in all_settings for word in ("-X", setting)),
        ]

    def start(self) -> None:
        """Start the process; does not wait until it serves."""
        assert not self.is_running, f"broker {self.node_id} runs already"
        environment = {name: value for name, value in os.environ.items() if not name.startswith("QANAT_")}
        self._run_starts_at = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**environment, **self.disk.environment},
                start_new_session=True,
            )

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        return None if self._process is None else self._process.poll()

    @property
    def has_failed_directory(self) -> bool:
        """Whether the running process has logged that it gave its log directory up."""
        with self.log.open("rb") as log:
            log.seek(self._run_starts_at)
            return _DIRECTORY_FAILED in log.read()

    def signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    def kill(self) -> None:
        """Kill it with -9, also while it is paused."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def end(self) -> None:
        """Shut it down cleanly, or kill it where that takes too long."""
        self.disk.become(Condition.WELL)
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        deadline = time.monotonic() + 20
        while self.is_running and time.monotonic() < deadline:
            time.sleep(0.05)
        self.kill()

    def exceptions(self) -> Counter[str]:
        """Unexpected exceptions that the broker has logged in all its runs, by their last line."""
        found: Counter[str] = Counter()
        is_inside = False
        for line in self.log.read_text(errors="replace").splitlines():
            if line.startswith("Traceback "):
                is_inside = True
            elif is_inside and line[:1].strip():
                is_inside = False
                found[line[:200]] += 1
        return found

    def last_log_line(self) -> str:
        lines = [line for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        return lines[-1][:300] if lines else "it logged nothing"
