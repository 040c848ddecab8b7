"""`kill -9` under load: a real broker process on one data directory, killed at random times and started again.

Everything acknowledged before a kill must be there after it, while the load continues.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

from verify.restart.ledger import Ledger
from verify.restart.load import Load, make_load_topic, wait_for_acknowledgements
from verify.restart.readback import read_back

_TIMEOUT_S = 60.0


class BrokerProcess:
    """`qanat start` on one port and one directory, started and killed any number of times."""

    def __init__(
        self, folder: Path, settings: Sequence[str] = (), host: str = "127.0.0.1", before: Sequence[str] = ()
    ) -> None:
        """`settings` are further ones, as `name=value`; `before` are words before the command, for another network."""
        self._folder = folder
        self._settings = settings
        self._host, self._before = host, before
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port: int = free.getsockname()[1]
        self.address = f"{host}:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Return once the port accepts connections."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("QANAT_")}
        line = [*self._before, sys.executable, "-m", "qanat.app", "start", "--host", self._host]
        line += [
            "--port",
            str(self._port),
            "--data-dir",
            str(self._folder / "data"),
            "-X",
            "offsets.topic.num.partitions=4",
        ]
        line += ["-X", "group.initial.rebalance.delay.ms=0"]
        line += [word for setting in self._settings for word in ("-X", setting)]
        with (self._folder / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(line, stdout=log, stderr=log, env=environment)
        deadline = time.monotonic() + _TIMEOUT_S
        while time.monotonic() < deadline:
            try:
                socket.create_connection((self._host, self._port), timeout=1).close()
            except OSError:
                if self._process.poll() is not None:
                    break
                time.sleep(0.01)
            else:
                return
        raise RuntimeError(f"the broker does not start: {(self._folder / 'broker.log').read_text()[-2000:]}")

    def kill(self) -> None:
        """Kill it with -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def kill_again_and_again(folder: Path, kills: int, seed: int) -> tuple[Ledger, list[str]]:
    """Kill the broker so often; returns the acknowledgements and the problems."""
    random, ledger, problems = Random(seed), Ledger(), list[str]()
    broker = BrokerProcess(folder)
    try:
        broker.start()
        make_load_topic(broker.address, ledger)
        with Load(broker.address, ledger, seed):
            for number in range(kills):
                wait_for_acknowledgements(ledger, random.randrange(50, 500), random.randrange(1, 10))
                broker.kill()
                mark = ledger.mark()
                broker.start()
                found = read_back(broker.address)
                problems += [f"kill {number}: {problem}" for problem in ledger.problems(found, mark)]
            wait_for_acknowledgements(ledger, 50, 1)
        problems += [f"at the end: {problem}" for problem in ledger.problems(read_back(broker.address))]
    finally:
        broker.kill()
    return ledger, problems
