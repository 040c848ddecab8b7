"""The common parts of all drivers: command line, start signal, pacing and counting.

A driver is a process per run, one program for each client library: it creates the stream, connects, warms up, prints
"ready", waits for "go", and prints its result. `bench.clients` is the other end.
"""

from __future__ import annotations

import json
import struct
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version

from qanat.app.bench.clients.latencies import Latencies

TIMEOUT_S = 60.0
WARM_UP_SHARE = 10
"""One in so many messages warms up, before the measurement."""
WARM_UP_MAX = 5_000
SYNC_WARM_UP = 50
UNCOUNTED_SHARE = 10
"""One in so many of the paced messages warms up."""
NEW = "new-"
"""A mode with this prefix creates its stream first and removes it afterwards."""
TOPIC = "topic."
"""A setting with this prefix is the topic's, where a stream has settings of its own."""
_INTENDED = struct.Struct("d")
Found = dict[str, float]


@dataclass(frozen=True, slots=True)
class Asked:
    """One run."""

    address: str
    topic: str
    size: int
    count: int
    rate: int
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def host(self) -> str:
        return self.address.rpartition(":")[0]

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    @property
    def payload(self) -> bytes:
        return b"x" * self.size

    @property
    def warm_up_count(self) -> int:
        return min(self.count // WARM_UP_SHARE, WARM_UP_MAX)


Mode = Callable[[Asked], Found]


def wait_for_go() -> None:
    print("ready", flush=True)
    sys.stdin.readline()


def throughput(start: float, count: int) -> Found:
    return {"seconds": time.perf_counter() - start, "count": count}


def percentiles(latencies: Latencies) -> Found:
    shares = {"p50_ms": 50.0, "p99_ms": 99.0, "p999_ms": 99.9}
    return {"count": latencies.count, **{name: latencies.at(share) for name, share in shares.items()}}


def paced(asked: Asked, send: Callable[[bytes], object]) -> threading.Thread:
    """A thread that calls `send` at the given rate; each message holds the time at which it was due.

    A thread for event loops as well: their own timers are good to a millisecond, which would be most of the result.
    """

    def run() -> None:
        start = time.perf_counter()
        for number in range(asked.count):
            intended = start + number / asked.rate
            time.sleep(max(0.0, intended - time.perf_counter()))
            send(_INTENDED.pack(intended).ljust(asked.size, b"x"))

    return threading.Thread(target=run, daemon=True)


class Arrivals:
    """Arriving messages of a paced run, each measured from when it was due."""

    def __init__(self, count: int) -> None:
        self._latencies = Latencies()
        self._count = count
        self._seen = 0

    @property
    def is_complete(self) -> bool:
        return self._seen >= self._count

    def saw(self, payload: bytes) -> None:
        took = time.perf_counter() - _INTENDED.unpack_from(payload)[0]
        self._seen += 1
        if self._seen > self._count // UNCOUNTED_SHARE:
            self._latencies.record(max(1, round(took * 1e6)))

    def found(self) -> Found:
        """The count of all messages, also of those that warm up: the server worked for them too."""
        return {**percentiles(self._latencies), "count": self._seen}


def main(packages: Sequence[str], modes: Mapping[str, Mode], arguments: Sequence[str]) -> int:
    """Run the command line; `packages` are named in the report."""
    if list(arguments) == ["version"]:
        print(", ".join(f"{name} {version(name)}" for name in packages))
        return 0
    mode, address, topic, size, count, rate, *rest = arguments
    settings = dict(one.split("=", 1) for one in rest)
    of_topic = {name: value for name, value in settings.items() if name.startswith(TOPIC)}
    of_client = {name: value for name, value in settings.items() if name not in of_topic}
    asked = Asked(address, topic, int(size), int(count), int(rate), of_client)
    making = replace(asked, settings={name.removeprefix(TOPIC): value for name, value in of_topic.items()})
    is_new, plain_mode = mode.startswith(NEW), mode.removeprefix(NEW)
    if is_new:
        modes["create"](making)
    found = modes[plain_mode](making if plain_mode == "create" else asked)
    if found:
        print(json.dumps(found), flush=True)
    if is_new:
        modes["delete"](asked)
    return 0
