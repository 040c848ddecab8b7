"""Who fills the source, kills driver, executors, workers and broker, starts them again, and compares."""

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

from verify.restart.kill import BrokerProcess
from verify.spark_fire.found import lake_problems, topic_problems, value
from verify.spark_fire.job import SINK, SOURCE
from verify.spark_fire.victims import strike

Tell = Callable[[str], None]
PARTITIONS = 4
_PATIENCE_S = 600.0
_LONGEST_DELAY_S = 1.0
"""After a batch was seen to end, a kill comes at a drawn moment of the next."""
_DOWN_S = 1.0
"""How long a broker stays away, at most."""
_VICTIM_S = 60.0
"""How long somebody to kill is waited for."""
_SURRENDERS_MAX = 10
"""A driver may give up where a broker stays away too long; not again and again."""


@dataclass
class Outcome:
    """What was done, and what came of it."""

    kills: Counter[str] = field(default_factory=Counter)
    batches: int = 0
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0


class DriverProcess:
    """A driver, with its finished batches as they are printed."""

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
        """The Python process and its JVM."""
        strike(self.process.pid, "driver", Random(0))
        self.process.kill()
        self.process.wait()
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()


def copy_under_fire(
    folder: Path, master: str, records: int, per_batch: int, kills: list[str], seed: int, tell: Tell = lambda _: None
) -> Outcome:
    """Copy so many records, in batches of `per_batch`, with these kills in an order that the seed draws."""
    random, outcome, began = Random(seed), Outcome(), time.monotonic()
    waiting = random.sample(kills, len(kills))
    broker = BrokerProcess(folder)
    driver: DriverProcess | None = None
    try:
        broker.start()
        tell(f"filling a topic with {records:,} records")
        _fill(broker.address, records)
        driver = DriverProcess(folder, master, broker.address, per_batch)
        while (code := _watch(driver, random.randint(1, 2), outcome)) != 0:
            if code is not None:
                outcome.kills["driver gave up"] += 1
                if outcome.kills["driver gave up"] > _SURRENDERS_MAX:
                    raise RuntimeError(f"the driver cannot go on: {_last_words(folder / 'driver.log')}")
                driver = DriverProcess(folder, master, broker.address, per_batch)
            elif waiting:
                time.sleep(random.uniform(0, _LONGEST_DELAY_S))
                tell(f"{outcome.batches} batches; killing a {waiting[-1]}, {len(waiting) - 1} more to come")
                driver = _kill(waiting.pop(), broker, driver, outcome, random, (folder, master, per_batch))
        tell(f"{outcome.batches} batches; comparing what is in the topic and in the lake")
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
    """Kill one, and start it again unless Spark does; the driver there is now."""
    if victim == "broker":
        broker.kill()
        time.sleep(random.uniform(0, _DOWN_S))
        broker.start()
    elif victim == "driver":
        driver.kill()
        folder, master, per_batch = again
        driver = DriverProcess(folder, master, broker.address, per_batch)
    elif not _strike_soon(victim, random):
        outcome.problems.append(f"there was no {victim} to kill")
    outcome.kills[victim] += 1
    return driver


def _strike_soon(victim: str, random: Random) -> bool:
    """Executors and workers come and go with the work: wait for one, if there is none."""
    deadline = time.monotonic() + _VICTIM_S
    while not strike(os.getpid(), victim, random):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _watch(driver: DriverProcess, batches: int, outcome: Outcome) -> int | None:
    """Wait for so many batches; the driver's exit code where it ends before."""
    deadline = time.monotonic() + _PATIENCE_S
    while batches > 0:
        if time.monotonic() > deadline:
            raise RuntimeError("the copy does not get on: see driver.log")
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
        future.result(_PATIENCE_S)
    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 5})
    for number in range(records // PARTITIONS):
        for partition in range(PARTITIONS):
            producer.produce(SOURCE, value(partition, number), partition=partition)
        if number % 10_000 == 0:
            producer.flush(_PATIENCE_S)
    if producer.flush(_PATIENCE_S):
        raise RuntimeError("the source could not be filled")


def _last_words(log: Path) -> str:
    return log.read_text(errors="replace")[-3000:]


def _environment() -> dict[str, str]:
    return {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
