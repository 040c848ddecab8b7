"""Latency of push at a fixed rate: beside NATS JetStream's push consumer and Kafka consumers, by turns.

Producer and consumer are one process, with the official Python client of each system; time counts from when a record
was due until the application has it. Every consumer acknowledges every record, except a Kafka consumer, which commits
nothing. Without a sync before the acknowledgement on any side; with one, push is beside Kafka alone: NATS 2.9 has none.
"""

from __future__ import annotations

import contextlib
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tools import kafka_jars
from tools.servers import Running, kafka, qanat

from bench import processes
from bench.client.bars import Bar
from bench.clients import Client, Task
from bench.peers.driving import TOPIC
from bench.peers.systems import NATS, located
from bench.workloads.settings import FLUSHED, UNFLUSHED

RATE = 1_000
SIZE = 100
_PUSH = ("bench.push.drive_push", "endtoend")
_KAFKA = ("bench.peers.drive_kafka", "endtoend")
NATS_PUSH, KAFKA_ON_QANAT, KAFKA_ON_KAFKA = "NATS push consumer", "Kafka consumer on Qanat", "Kafka consumer on Kafka"
PUSH, PUSH_ALL = "push, mode log", "push, mode all"


@dataclass(slots=True)
class Contestant:
    """One client on one server, and its figures: a row per round."""

    name: str
    driver: str
    mode: str
    server: str
    p50_ms: list[float] = field(default_factory=list)
    p99_ms: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)
    """CPU time of the server per record."""

    def __str__(self) -> str:
        p50, p99 = statistics.median(self.p50_ms), statistics.median(self.p99_ms)
        spread = f"{min(self.p99_ms):.2f} to {max(self.p99_ms):.2f}"
        cpu = statistics.median(self.cpu_us)
        return f"{self.name:28s} p50 {p50:6.2f} ms  p99 {p99:6.2f} ms ({spread})  server CPU {cpu:4.0f} µs a record"


def contestants(servers: Mapping[str, Running]) -> list[Contestant]:
    """Who can take part on these servers."""
    all_of_them = [
        Contestant(PUSH, *_PUSH, "qanat"),
        Contestant(PUSH_ALL, _PUSH[0], "endtoend-all", "qanat"),
        Contestant(NATS_PUSH, "bench.push.drive_nats_push", "endtoend", "nats"),
        Contestant(KAFKA_ON_QANAT, *_KAFKA, "qanat"),
        Contestant(KAFKA_ON_KAFKA, *_KAFKA, "kafka"),
    ]
    return [one for one in all_of_them if one.server in servers]


@contextlib.contextmanager
def servers(folder: Path) -> Iterator[dict[str, Running]]:
    """Qanat, and of NATS and Apache Kafka those that are here; a sentence on each other one is printed."""
    with contextlib.ExitStack() as running:
        found = {"qanat": running.enter_context(qanat().running(folder / "qanat"))}
        program = located(NATS.program)
        if program is None:
            print(f"  NATS takes no part: {NATS.install}", flush=True)
        else:
            start = NATS.prepare
            from bench.peers.launching import launched

            found["nats"] = running.enter_context(
                launched(folder / "nats", lambda inside, port: start(False, program, inside, port))
            )
        try:
            jars = kafka_jars.have_jars()
        except kafka_jars.JarsUnavailableError as fault:
            print(f"  Apache Kafka takes no part: {fault}", flush=True)
        else:
            found["kafka"] = running.enter_context(kafka(jars).running(folder / "kafka"))
        yield found


def bars(folder: Path, seconds: float, rounds: int) -> list[Bar]:
    """Each contestant in every round; ratios are taken within the round."""
    with servers(folder) as running:
        plain = contestants(running)
        turns(plain, running, UNFLUSHED, seconds, rounds)
        synced = [one for one in contestants(running) if one.server != "nats" and one.name != PUSH_ALL]
        print("  with a sync before every acknowledgement:", flush=True)
        turns(synced, running, FLUSHED, seconds, max(rounds // 2, 1))
    return [*_bars(plain, ""), *_bars(synced, ", fsync")]


def turns(
    among: list[Contestant], running: Mapping[str, Running], topic: Mapping[str, str], seconds: float, rounds: int
) -> None:
    """Measure and print. The first round warms servers up and is not kept."""
    for number in range(rounds + 1):
        for one in among:
            found, cpu_s = _run(one, running[one.server], topic, seconds if number else min(seconds, 3.0), number)
            if number:
                one.p50_ms.append(found["p50_ms"])
                one.p99_ms.append(found["p99_ms"])
                one.cpu_us.append(cpu_s / found["count"] * 1e6)
    for one in among:
        print(f"  {one}", flush=True)


def _run(
    one: Contestant, server: Running, settings: Mapping[str, str], seconds: float, number: int
) -> tuple[dict[str, float], float]:
    client = Client((sys.executable, "-m", one.driver), one.name)
    topic = f"latency-{one.mode}-{number}-{'synced' if settings is FLUSHED else 'plain'}"
    spent: list[float] = []

    def look() -> None:
        spent.append(sum(map(processes.cpu_seconds, server.pids)))

    making = {f"{TOPIC}{name}": value for name, value in settings.items()}
    client.run(server.address, Task("create", topic, settings=making))
    found = client.run(server.address, Task(one.mode, topic, SIZE, int(RATE * seconds), RATE), look, look)
    client.run(server.address, Task("delete", topic))
    return found, spent[1] - spent[0]


def _bars(among: list[Contestant], suffix: str) -> list[Bar]:
    by_name = {one.name: one for one in among}

    def ratio(other: str, of: Callable[[Contestant], list[float]]) -> float | None:
        if other not in by_name:
            return None
        pairs = zip(of(by_name[PUSH]), of(by_name[other]), strict=True)
        return statistics.median(ours / theirs for ours, theirs in pairs)

    def p50(one: Contestant) -> list[float]:
        return one.p50_ms

    def p99(one: Contestant) -> list[float]:
        return one.p99_ms

    found = []
    if not suffix:
        found += [
            Bar(f"p50 beside {NATS_PUSH}", ratio(NATS_PUSH, p50), 1.0, "at most"),
            Bar(f"p99 beside {NATS_PUSH}", ratio(NATS_PUSH, p99), 1.0, "at most"),
        ]
    for other in (KAFKA_ON_KAFKA, KAFKA_ON_QANAT):
        found.append(Bar(f"p99 beside {other}{suffix}", ratio(other, p99), 0.5, "at most"))
    return found
