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

from qanat.wire.kafka.headers import frame_request
from qanat.wire.kafka.messages.api_versions import ApiVersionsRequest, write_request
from qanat.wire.kafka.registry import ApiKey

TIMEOUT_S = 20.0
BUG = "bug while serving a client"
_BEAT_S = 0.002


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
    def watched(self) -> Iterator[list[float]]:
        """Another client that asks all the time: yields the seconds that each of its answers took.

        Without those for which a busy machine had no processor for the broker or for the client.
        """
        waits: list[float] = []
        over = threading.Event()

        def beat() -> None:
            with self.connect() as client:
                is_over = False
                while not is_over:
                    is_over = over.is_set()  # Asked at least once, however short the test.
                    began, queued = time.perf_counter(), self._queued_s()
                    client.sendall(GREETING)
                    (size,) = struct.unpack(">i", exactly(client, 4))
                    exactly(client, size)
                    waits.append(time.perf_counter() - began - (self._queued_s() - queued))
                    time.sleep(_BEAT_S)

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield waits
        finally:
            over.set()
            thread.join(TIMEOUT_S)
            assert not thread.is_alive(), "another client is not served any more"

    def _queued_s(self) -> float:
        """How long the broker's loop and this thread have waited for a processor; 0 where it is not reported."""
        tasks = ((self._process.pid, self._process.pid), (os.getpid(), threading.get_native_id()))
        files = [Path(f"/proc/{process}/task/{thread}/schedstat") for process, thread in tasks]
        return sum(int(one.read_text().split()[1]) for one in files if one.exists()) / 1e9

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
