"""A node in a process of its own, for tests that attack it: its memory, its log, how long other clients wait."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from qanat.wire.kafka.headers import frame_request
from qanat.wire.kafka.messages.api_versions import ApiVersionsRequest, write_request
from qanat.wire.kafka.registry import ApiKey

TIMEOUT_S = 60.0
BUG = "bug while serving a client"
LONGEST_CPU_S = 1.0
LONGEST_WAIT_S = 10.0
"""A hang. Below that the clock on the wall says how busy the machine is, and not how the broker behaves."""
_BEAT_S = 0.002
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Wait(NamedTuple):
    """What one answer took."""

    seconds: float
    cpu_s: float
    """For how long the broker, all its threads together, has computed meanwhile."""


class Victim:
    """`qanat dev`, with its log in a file."""

    def __init__(self, folder: Path, *settings: str) -> None:
        self._log = folder / "victim.log"
        command = [sys.executable, "-m", "qanat.app", "dev", "--log-format", "json", "--log-level", "info"]
        options = [part for setting in settings for part in ("-X", setting)]
        self._file = self._log.open("wb")
        self._process = subprocess.Popen([*command, *options], stdout=subprocess.DEVNULL, stderr=self._file)
        started = self._started()
        self.port = int(str(started["address"]).rpartition(":")[2])
        self.http = str(started.get("http"))
        """Where it serves HTTP."""

    def _started(self) -> dict[str, object]:
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            for event in self.events():
                if event.get("event") == "started":
                    return event
            time.sleep(0.05)
        raise RuntimeError(self.log())

    def close(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._file.close()

    def log(self) -> str:
        return self._log.read_text(errors="surrogateescape")

    def events(self) -> list[dict[str, object]]:
        lines = self.log().split("\n")
        return [json.loads(line) for line in lines[:-1] if line.startswith("{")]

    def bugs(self) -> list[dict[str, object]]:
        """Faults that are ours and not the client's, and whatever Python itself complains about."""
        return [event for event in self.events() if event["level"] == "error"]

    @property
    def rss_bytes(self) -> int:
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        (line,) = [line for line in status.splitlines() if line.startswith("VmRSS")]
        return int(line.split()[1]) * 1024

    def connect(self, timeout_s: float = TIMEOUT_S) -> socket.socket:
        connected = socket.create_connection(("127.0.0.1", self.port), timeout_s)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connected

    def is_alive(self) -> bool:
        """Whether a new client is served."""
        with self.connect() as client:
            client.sendall(GREETING)
            return len(exactly(client, 4)) == 4

    @contextlib.contextmanager
    def watched(
        self, longest_s: float = LONGEST_WAIT_S, longest_cpu_s: float = LONGEST_CPU_S, replay: str = ""
    ) -> Iterator[list[Wait]]:
        """Another client that asks all the time: yields its waits, and fails at the end if one was too long.

        Too long is a wait in which the broker computed for more than `longest_cpu_s`, however many others run on the
        machine, or one of more than `longest_s`. `replay` is added to what the failure says.
        """
        waits: list[Wait] = []
        failures: list[Exception] = []
        over = threading.Event()

        def beat() -> None:
            with self.connect() as client:
                is_over = False
                while not is_over:
                    is_over = over.is_set()  # Asked at least once, however short the test.
                    began, computed_s = time.perf_counter(), self.cpu_s
                    client.sendall(GREETING)
                    (size,) = struct.unpack(">i", exactly(client, 4))
                    exactly(client, size)
                    waits.append(Wait(time.perf_counter() - began, self.cpu_s - computed_s))
                    time.sleep(_BEAT_S)

        def ask() -> None:
            try:
                beat()
            except (OSError, EOFError) as failure:
                failures.append(failure)

        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        try:
            yield waits
        finally:
            over.set()
            thread.join(3 * TIMEOUT_S)
        more = f"; {replay}" if replay else ""
        assert not thread.is_alive(), f"another client is not served any more{more}"
        assert not failures, f"another client is not served any more: {failures[0]!r}{more}"
        computed, waited = max(wait.cpu_s for wait in waits), max(wait.seconds for wait in waits)
        assert computed <= longest_cpu_s, f"the broker computed for {computed:.2f} s while another client waited{more}"
        assert waited <= longest_s, f"another client waited for {waited:.2f} s{more}"

    @property
    def cpu_s(self) -> float:
        """For how long all its threads, those that have ended as well, have had a processor."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S

    @contextlib.contextmanager
    def standing_still(self) -> Iterator[None]:
        """Inside, it does nothing at all."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)


GREETING = b"".join(
    frame_request(ApiKey.API_VERSIONS, 3, 1, "bystander", write_request(ApiVersionsRequest("bystander", "1"), 3))
)


def exactly(client: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        more = client.recv(size - len(received))
        if not more:
            raise EOFError
        received += more
    return bytes(received)


PUSH_TYPES = range(1, 9)
"""First bytes of the push protocol: what begins with one and is no frame gets an ERROR frame before the end."""


def is_ended(client: socket.socket, sent: bytes, timeout_s: float = TIMEOUT_S) -> bool:
    """Whether a connection that sent this at its start is closed; with an ERROR of push first, where it speaks push."""
    how = ending(client, timeout_s)
    while how == "answered" and sent[:1] and sent[0] in PUSH_TYPES:
        how = ending(client, timeout_s)
    return how == "closed"


def ending(client: socket.socket, timeout_s: float = TIMEOUT_S) -> str:
    """How a connection ends: `closed`, `answered`, or `silent`."""
    client.settimeout(timeout_s)
    try:
        return "answered" if client.recv(65536) else "closed"
    except TimeoutError:
        return "silent"
    except ConnectionError:
        return "closed"
