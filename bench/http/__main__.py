"""`python -m bench.http`: the HTTP server compared with a bare handler of the same framework."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.client
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

import uvloop
from tools.servers import free_port, qanat

from bench import processes
from bench.http.load import delivery_ms, lines_per_second, request, requests_per_second

Row = tuple[str, str, str, bool]
SINGLE = request("/produce", b'{"topic": "metrics.inbound", "key": "client_123", "value": {"cpu": 0.5, "host": "a"}}')


def wait_for(port: int) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", "/health")
            connection.getresponse().read()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return


class Side(NamedTuple):
    """A server: its port and its process."""

    port: int
    pid: int


class Found(NamedTuple):
    """The result of one run."""

    per_second: float
    cpu_us: float
    """CPU time of the server for each of them, which does not depend on other load."""


@contextlib.contextmanager
def bare() -> Iterator[Side]:
    port = free_port()
    process = subprocess.Popen([sys.executable, "-m", "bench.http.bare", str(port)])
    try:
        wait_for(port)
        yield Side(port, process.pid)
    finally:
        process.terminate()
        process.wait()


async def timed(side: Side, work: Awaitable[float]) -> Found:
    before, began = processes.cpu_seconds(side.pid), time.perf_counter()
    per_second = await work
    elapsed = time.perf_counter() - began
    return Found(per_second, (processes.cpu_seconds(side.pid) - before) / (per_second * elapsed) * 1e6)


async def measure(ours: Side, other: Side, seconds: float, rounds: int) -> list[Row]:
    await requests_per_second(ours.port, SINGLE, 32, 0.5)
    pairs: list[tuple[Found, Found]] = []
    for _ in range(rounds):
        theirs = await timed(other, requests_per_second(other.port, SINGLE, 32, seconds))
        pairs.append((await timed(ours, requests_per_second(ours.port, SINGLE, 32, seconds)), theirs))
    share = median(one.per_second / two.per_second for one, two in pairs)
    of_cpu = median(two.cpu_us / one.cpu_us for one, two in pairs)
    await lines_per_second(ours.port, 10_000, 2, 0.5)
    lines = [await timed(ours, lines_per_second(ours.port, 10_000, 2, seconds)) for _ in range(rounds)]
    per_second, line_us = median(one.per_second for one in lines), median(one.cpu_us for one in lines)
    waits = await delivery_ms(ours.port, round(500 * max(seconds, 2)), 500)
    p99 = waits[int(len(waits) * 0.99)]
    return [
        ("single-record produce, 32 connections", _rate([one for one, _ in pairs], "request"), "", True),
        ("a bare handler of the same framework", _rate([two for _, two in pairs], "request"), "", True),
        ("share of its requests/s", f"{share:.0%}", "at least 50 %", share >= 0.5),
        ("share by CPU time alone", f"{of_cpu:.0%}", "", True),
        ("produce of lines, 10,000 a request", _rate(lines, "record"), "at least 300,000/s", per_second >= 300_000),
        ("the same by CPU time alone", f"{1e6 / line_us:,.0f} records per CPU second", "", True),
        ("stream: acknowledgement to event, median", f"{waits[len(waits) // 2]:.2f} ms", "", True),
        ("stream: acknowledgement to event, p99", f"{p99:.2f} ms", "below 10 ms", p99 < 10),
    ]


def _rate(found: list[Found], what: str) -> str:
    rate, cpu_us = median(one.per_second for one in found), median(one.cpu_us for one in found)
    return f"{rate:,.0f} {what}s/s, {cpu_us:,.1f} us of CPU each"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.http", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="some seconds instead of a minute")
    arguments = parser.parse_args()
    seconds, rounds = (1.5, 1) if arguments.quick else (4.0, 5)
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        server = qanat({"http.port": port})
        with server.running(Path(folder) / "qanat") as running, bare() as other:
            wait_for(port)
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                rows = runner.run(measure(Side(port, running.pid), other, seconds, rounds))
            memory = processes.memory(running.pid).own_bytes / 1e6
    for what, figure, required, _ in rows:
        print(f"{what:<42} {figure:>44}  {required}")
    print(f"{'memory of the broker afterwards':<42} {memory:>41.0f} MB")
    return 0 if all(is_met for *_, is_met in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
