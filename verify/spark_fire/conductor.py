"""The conductor of the copy: fills the source, kills driver, executors, workers and broker, restarts, and compares."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from random import Random

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from tools.machines import THIS, Machine

from verify.restart.kill import BrokerProcess
from verify.spark_fire.checks import lake_problems, topic_problems, value
from verify.spark_fire.job import SINK, SOURCE
from verify.spark_fire.victims import kill_one

Show = Callable[[str], None]
PARTITIONS = 4
_TIMEOUT_S = 600.0
_LONGEST_DELAY_S = 1.0
"""A kill comes at a random time after a batch has ended, within the next one."""
_DOWN_S = 1.0
"""How long a broker stays down, at most."""
_VICTIM_S = 60.0
"""How long to wait for a process to kill."""
_SURRENDERS_MAX = 10
"""How often a driver may give up because a broker was down for too long."""


@dataclass
class Outcome:
    """The kills, and the problems."""

    kills: Counter[str] = field(default_factory=Counter)
    batches: int = 0
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0


class DriverProcess:
    """A driver's process, and the finished batches that it prints."""

    def __init__(self, folder: Path, master: str, address: str, per_batch: int) -> None:
        line = [sys.executable, "-m", "verify.spark_fire.job", master, address, str(folder), str(per_batch)]
        with (folder / "driver.log").open("ab") as log:
            self.process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=log, text=True, env=_environment())
        self.batches: SimpleQueue[str] = SimpleQueue()
        self._reader = threading.Thread(target=self._read, name="driver", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.batches.put(line)

    def kill(self) -> None:
        """Kill the Python process and its JVM."""
        kill_one(self.process.pid, "driver", Random(0))
        self.process.kill()
        self.process.wait()
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()


def copy_under_kills(
    folder: Path,
    master: str,
    records: int,
    per_batch: int,
    kills: list[str],
    seed: int,
    show: Show = lambda _: None,
    broker_machine: Machine = THIS,
) -> Outcome:
    """Copy so many records, in batches of `per_batch`, with these kills in an order that the seed draws."""
    random, outcome, began = Random(seed), Outcome(), time.monotonic()
    waiting = random.sample(kills, len(kills))
    settings = () if broker_machine == THIS else ("allow.unauthenticated.clients=true",)
    broker = BrokerProcess(folder, settings, broker_machine.host, broker_machine.before)
    driver: DriverProcess | None = None
    try:
        broker.start()
        show(f"filling a topic with {records:,} records")
        _fill(broker.address, records)
        driver = DriverProcess(folder, master, broker.address, per_batch)
        while (code := _watch(driver, random.randint(1, 2), outcome)) != 0:
            if code is not None:
                outcome.kills["driver gave up"] += 1
                if outcome.kills["driver gave up"] > _SURRENDERS_MAX:
                    raise RuntimeError(f"the driver cannot continue: {_end_of(folder / 'driver.log')}")
                driver = DriverProcess(folder, master, broker.address, per_batch)
            elif waiting:
                time.sleep(random.uniform(0, _LONGEST_DELAY_S))
                show(f"{outcome.batches} batches; killing a {waiting[-1]}, {len(waiting) - 1} more to come")
                driver = _kill(waiting.pop(), broker, driver, outcome, random, (folder, master, per_batch))
        show(f"{outcome.batches} batches; comparing topic and lake with the source")
        outcome.problems += topic_problems(broker.address, SINK, PARTITIONS, records)
        outcome.problems += lake_problems(folder / "lake", PARTITIONS, records)
        outcome.problems += [f"{one} was not killed: the copy was over" for one in waiting]
    finally:
        if driver is not None:
            driver.kill()
        broker.kill()
    outcome.seconds = time.monotonic() - began
    return outcome


def _kill(
    victim: str,
    broker: BrokerProcess,
    driver: DriverProcess,
    outcome: Outcome,
    random: Random,
    again: tuple[Path, str, int],
) -> DriverProcess:
    """Kill one process, and restart it unless Spark does; returns the current driver."""
    if victim == "broker":
        broker.kill()
        time.sleep(random.uniform(0, _DOWN_S))
        broker.start()
    elif victim == "driver":
        driver.kill()
        folder, master, per_batch = again
        driver = DriverProcess(folder, master, broker.address, per_batch)
    elif not _kill_soon(victim, random):
        outcome.problems.append(f"there was no {victim} to kill")
    outcome.kills[victim] += 1
    return driver


def _kill_soon(victim: str, random: Random) -> bool:
    """Wait for a process of a kind, since Spark starts and ends them with the work, and kill it."""
    deadline = time.monotonic() + _VICTIM_S
    while not kill_one(os.getpid(), victim, random):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _watch(driver: DriverProcess, batches: int, outcome: Outcome) -> int | None:
    """Wait for so many batches; returns the driver's exit code where it ends before."""
    deadline = time.monotonic() + _TIMEOUT_S
    while batches > 0:
        if time.monotonic() > deadline:
            raise RuntimeError("the copy makes no progress: see driver.log")
        try:
            driver.batches.get(timeout=0.1)
            outcome.batches += 1
            batches -= 1
        except Empty:
            code = driver.process.poll()
            if code is not None:
                return code
    return None


def _fill(address: str, records: int) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    for future in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in (SOURCE, SINK)]).values():
        future.result(_TIMEOUT_S)
    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 5})
    for number in range(records // PARTITIONS):
        for partition in range(PARTITIONS):
            producer.produce(SOURCE, value(partition, number), partition=partition)
        if number % 10_000 == 0:
            producer.flush(_TIMEOUT_S)
    if producer.flush(_TIMEOUT_S):
        raise RuntimeError("the source could not be filled")


def _end_of(log: Path) -> str:
    return log.read_text(errors="replace")[-3000:]


def _environment() -> dict[str, str]:
    return {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
