"""`python -m bench.stalls`: the longest stall of a broker's event loop by one request of each kind."""

from __future__ import annotations

import argparse
import json
import socket
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from bench.stalls.cases import Case
from bench.stalls.crowd import Crowd
from bench.stalls.requests import cases

START_S = 300.0
ANSWER_S = 120.0
HOLD_MS_MAX = 50.0
_HEADINGS = (
    "API",
    "what",
    "rows",
    "request",
    "CPU ms, median",
    "CPU ms, max",
    "wall ms, median",
    "wall ms, max",
    "answered in ms",
)


@dataclass(frozen=True, slots=True)
class Stall:
    """The stall of one request."""

    wall_ms: float
    cpu_ms: float
    answered_s: float


class ProbedBroker:
    """The broker's process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.port = int(self._line())

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("bench.stalls: the broker ended before its time")
        return line

    def longest(self) -> dict[str, float]:
        """The longest stalls since the last call."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        found: dict[str, float] = json.loads(self._line())
        return found

    def hold(self, frame: bytes) -> Stall:
        """Send one request on a connection of its own and receive its response."""
        with socket.create_connection(("127.0.0.1", self.port), ANSWER_S) as client:
            self.longest()
            began = time.perf_counter()
            client.sendall(frame)
            (size,) = struct.unpack(">i", _exactly(client, 4))
            _exactly(client, size)
            took_s = time.perf_counter() - began
            time.sleep(0.01)  # The probe's next beat, which sees what came after the answer.
            found = self.longest()
        return Stall(found["wall_ms"], found["cpu_ms"], took_s)


def _exactly(client: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        more = client.recv(min(size - len(received), 1 << 20))
        if not more:
            raise EOFError("the broker closed the connection")
        received += more
    return bytes(received)


@contextmanager
def probed_broker() -> Iterator[ProbedBroker]:
    command = [sys.executable, "-m", "bench.stalls.probed"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield ProbedBroker(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(ANSWER_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser("python -m bench.stalls", description=__doc__)
    parser.add_argument("--only", default="", help="APIs, separated by commas, such as Fetch,Metadata")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--check", action="store_true", help=f"exit with 1 where CPU holds exceed {HOLD_MS_MAX:.0f} ms")
    asked = parser.parse_args(arguments)
    only = {name.strip() for name in asked.only.split(",") if name.strip()}
    chosen = [case for case in cases(Crowd()) if not only or case.name in only]
    print("| " + " | ".join(_HEADINGS) + " |")
    print("| " + " | ".join("---" for _ in _HEADINGS) + " |")
    is_met = True
    with probed_broker() as broker:
        for case in chosen:
            is_met &= _row(case, broker, asked.rounds)
    return 1 if asked.check and not is_met else 0


def _row(case: Case, broker: ProbedBroker, rounds: int) -> bool:
    rows, frame = case.largest()
    held = [broker.hold(frame) for _ in range(rounds)]
    cpu, wall = [one.cpu_ms for one in held], [one.wall_ms for one in held]
    answered = statistics.median(one.answered_s for one in held) * 1000
    figures = [statistics.median(cpu), max(cpu), statistics.median(wall), max(wall), answered]
    cells = [case.name, case.what, f"{rows:,}", f"{len(frame) / 1024:,.0f} KB", *(f"{one:,.1f}" for one in figures)]
    print("| " + " | ".join(cells) + " |", flush=True)
    return max(cpu) <= HOLD_MS_MAX


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
