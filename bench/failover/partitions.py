"""The cost of partitions in a cluster of three: restart, memory, idle CPU, and elections."""

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

Show = Callable[[str], None]

_TOPIC = "many"
_IDLE_S = 10.0
_AWAY_S = 2.0
_TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True)
class Restart:
    """The restart of a broker after kill -9, from its start on."""

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
    """Share of one processor, of the busiest broker, without clients."""
    elect_s: float
    """From the kill of a broker until all its partitions have other leaders."""
    elected: int


def measure_restart(partitions: int, show: Show) -> Restart:
    """Kill a broker with replicas of all partitions, and restart it."""
    with tempfile.TemporaryDirectory() as folder, BrokerProcesses(Path(folder)) as brokers:
        show(f"restart: making {partitions} partitions")
        brokers.create(_TOPIC, partitions)
        _write(brokers, partitions)
        brokers.kill(0)
        brokers.until(lambda seen: all(one.leader != 0 for one in _rows(seen)), "others lead", _TIMEOUT_S)
        time.sleep(_AWAY_S)
        _write(brokers, partitions)
        begun = time.monotonic()
        brokers.start(0)
        brokers.until(lambda seen: 0 in seen.brokers, "it is there", _TIMEOUT_S)
        answers_s = time.monotonic() - begun
        brokers.until_in_sync(_TOPIC, _TIMEOUT_S)
        found = Restart(partitions, answers_s, time.monotonic() - begun)
    show(
        f"restart with {partitions} partitions: answers after {found.answers_s:.1f} s, in sync {found.in_sync_s:.1f} s"
    )
    return found


def measure_cost(partitions: int, show: Show) -> Cost:
    """A new cluster with so many partitions, idle, and then without one broker."""
    with tempfile.TemporaryDirectory() as folder, BrokerProcesses(Path(folder)) as brokers:
        show(f"cost: making {partitions} partitions")
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
        brokers.until(lambda seen: all(one.leader > 0 for one in _rows(seen)), "others lead", _TIMEOUT_S)
        found = Cost(partitions, held, idle, time.monotonic() - gone, led)
    show(f"{partitions} partitions: {held >> 20} MiB, {idle:.1%} CPU when idle, {led} leaders in {found.elect_s:.2f} s")
    return found


def _rows(seen: ClusterMetadata):  # type: ignore[no-untyped-def]  # The client's own rows have no public type.
    return seen.topics[_TOPIC].partitions.values()


def _write(brokers: BrokerProcesses, partitions: int) -> None:
    producer = Producer({"bootstrap.servers": brokers.bootstrap, "enable.idempotence": True, "log_level": 0})
    for number in range(partitions):
        producer.produce(_TOPIC, b"." * 1000, partition=number)
        producer.poll(0)
    assert producer.flush(_TIMEOUT_S) == 0, "everything is acknowledged"
