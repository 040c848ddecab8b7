"""What partitions cost a cluster of three: a restart with many of them, memory, idle CPU, and time to elect."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin._metadata import ClusterMetadata
from tools.brokers import BrokerProcesses

from bench.processes import cpu_seconds, memory

Tell = Callable[[str], None]

_TOPIC = "many"
_IDLE_S = 10.0
_AWAY_S = 2.0
_PATIENCE_S = 600.0


@dataclass(frozen=True, slots=True)
class Restart:
    """A broker after kill -9, from the moment at which it was started again."""

    partitions: int
    answers_s: float
    """Until it is registered and answers."""
    in_sync_s: float
    """Until it is in sync everywhere."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Three brokers with so many partitions of three replicas."""

    partitions: int
    memory_bytes: int
    """Of one broker, the largest; without mapped files."""
    idle_cpu: float
    """Of one processor, the busiest broker, while nobody asks anything."""
    elect_s: float
    """From the death of a broker until everything it led has another leader."""
    elected: int


def measure_restart(partitions: int, tell: Tell) -> Restart:
    """Kill a broker that holds them all, and start it again."""
    with tempfile.TemporaryDirectory() as folder, BrokerProcesses(Path(folder)) as brokers:
        tell(f"restart: making {partitions} partitions")
        brokers.create(_TOPIC, partitions)
        _write(brokers, partitions)
        brokers.kill(0)
        brokers.until(lambda seen: all(one.leader != 0 for one in _rows(seen)), "others lead", _PATIENCE_S)
        time.sleep(_AWAY_S)
        _write(brokers, partitions)
        begun = time.monotonic()
        brokers.start(0)
        brokers.until(lambda seen: 0 in seen.brokers, "it is there", _PATIENCE_S)
        answers_s = time.monotonic() - begun
        brokers.until_in_sync(_TOPIC, _PATIENCE_S)
        found = Restart(partitions, answers_s, time.monotonic() - begun)
    tell(
        f"restart with {partitions} partitions: answers after {found.answers_s:.1f} s, in sync {found.in_sync_s:.1f} s"
    )
    return found


def measure_cost(partitions: int, tell: Tell) -> Cost:
    """A new cluster with so many partitions, idle, and then without one broker."""
    with tempfile.TemporaryDirectory() as folder, BrokerProcesses(Path(folder)) as brokers:
        tell(f"cost: making {partitions} partitions")
        brokers.create(_TOPIC, partitions)
        time.sleep(2.0)
        pids = [process.pid for process in brokers.processes.values()]
        before = [cpu_seconds(pid) for pid in pids]
        time.sleep(_IDLE_S)
        idle = max(cpu_seconds(pid) - spent for pid, spent in zip(pids, before, strict=True)) / _IDLE_S
        held = max(memory(pid).own_bytes for pid in pids)
        led = sum(one.leader == 0 for one in _rows(brokers.look()))
        gone = time.monotonic()
        brokers.kill(0)
        brokers.until(lambda seen: all(one.leader > 0 for one in _rows(seen)), "others lead", _PATIENCE_S)
        found = Cost(partitions, held, idle, time.monotonic() - gone, led)
    tell(f"{partitions} partitions: {held >> 20} MiB, {idle:.1%} CPU when idle, {led} leaders in {found.elect_s:.2f} s")
    return found


def _rows(seen: ClusterMetadata):  # type: ignore[no-untyped-def]  # The client's own rows have no public type.
    return seen.topics[_TOPIC].partitions.values()


def _write(brokers: BrokerProcesses, partitions: int) -> None:
    producer = Producer({"bootstrap.servers": brokers.bootstrap, "enable.idempotence": True, "log_level": 0})
    for number in range(partitions):
        producer.produce(_TOPIC, b"." * 1000, partition=number)
        producer.poll(0)
    assert producer.flush(_PATIENCE_S) == 0, "everything is acknowledged"
