"""`qanat consume` processes that run in the background of a test."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import signal
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.app.processes import QANAT, TIMEOUT_SECONDS, clean_environment

from qanat.app import main


class RunningConsumer:
    """One consumer; what it prints goes to a file."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._printed = folder / f"consumer-{len(list(folder.glob('consumer-*')))}.out"
        with self._printed.open("wb") as stdout:
            self.process = subprocess.Popen(
                [*QANAT, "consume", *arguments], stdout=stdout, stderr=subprocess.PIPE, env=clean_environment()
            )

    def lines(self) -> list[str]:
        return self._printed.read_text().splitlines()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """Exit code and complaints."""
        self.process.send_signal(number)
        _, complaints = self.process.communicate(timeout=TIMEOUT_SECONDS)
        return self.process.returncode, complaints.decode()


@contextlib.contextmanager
def running_consumer(folder: Path, *arguments: str) -> Iterator[RunningConsumer]:
    consumer = RunningConsumer(folder, *arguments)
    try:
        yield consumer
    finally:
        if consumer.process.poll() is None:
            consumer.process.kill()
        consumer.process.communicate()


def wait_until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"in vain: {what}"
        time.sleep(0.05)


def described(address: str, group: str) -> list[dict[str, Any]]:
    """The partitions of a group, by a command in this process: tests ask again and again, which costs a core."""
    with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.redirect_stderr(io.StringIO()):
        main.run(["group", "describe", group, "-o", "json", "-b", address])
    return [row for row in json.loads(printed.getvalue() or "[]") if row["scope"] == "partition"]


def owned_partitions(address: str, group: str) -> dict[str, list[int]]:
    """Partitions by member of a group."""
    owners: dict[str, list[int]] = {}
    for row in described(address, group):
        if row["member"] is not None:
            owners.setdefault(row["member"], []).append(row["partition"])
    return owners


def on_terminal(*arguments: str) -> str:
    """What a command prints on a terminal of 80 columns, stdout and stderr together."""
    own, its = pty.openpty()
    termios.tcsetwinsize(its, (24, 80))
    process = subprocess.Popen(
        [*QANAT, *arguments], stdin=subprocess.DEVNULL, stdout=its, stderr=its, env=clean_environment(TERM="xterm")
    )
    os.close(its)
    printed = b""
    with contextlib.suppress(OSError):  # A terminal whose other end is closed answers with EIO.
        while chunk := os.read(own, 65536):
            printed += chunk
    os.close(own)
    assert process.wait(TIMEOUT_SECONDS) == 0, printed
    return printed.decode().replace("\r\n", "\n")
