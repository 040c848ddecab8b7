"""The conductor of the copy: fills the source, kills copier and broker, restarts them, and counts the copies."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from random import Random

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from verify.exactly_once.copier import UNABLE
from verify.restart.kill import BrokerProcess

SOURCE, SINK = "source", "sink"
PARTITIONS = 4
_TIMEOUT_S = 120.0
_LONGEST_DELAY_S = 0.03
"""A kill comes at a random time after a transaction has committed, within the next one."""


@dataclass
class Outcome:
    """The kills, and the copies."""

    kills: Counter[str] = field(default_factory=Counter)
    copies: Counter[int] = field(default_factory=Counter)
    """How often each record is in the sink."""
    seconds: float = 0.0

    def problems(self, records: int) -> list[str]:
        missing = [number for number in range(records) if number not in self.copies]
        repeated = [number for number, count in self.copies.items() if count > 1]
        unknown = [number for number in self.copies if not 0 <= number < records]
        found = {"missing": missing, "more than once": repeated, "never sent": unknown}
        return [f"{len(numbers)} {what}, first {numbers[0]}" for what, numbers in found.items() if numbers]


class CopierProcess:
    """A copier's process, and the progress that it prints."""

    def __init__(self, folder: Path, address: str, records: int, batch: int) -> None:
        line = [sys.executable, "-m", "verify.exactly_once.copier", address, SOURCE, SINK]
        line += [str(PARTITIONS), str(records), str(batch)]
        with (folder / "copier.log").open("ab") as log:
            self.process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=log, text=True)
        self.progress: SimpleQueue[int] = SimpleQueue()
        self._reader = threading.Thread(target=self._read, name="copier", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.progress.put(int(line))

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()


def copy_under_kills(folder: Path, records: int, batch: int, kills: int, seed: int) -> Outcome:
    """Copy so many records in transactions of `batch` records, with so many kills."""
    random, outcome, began = Random(seed), Outcome(), time.monotonic()
    broker = BrokerProcess(folder)
    copier: CopierProcess | None = None
    between = max(records // batch // (kills + 1), 1)
    try:
        broker.start()
        _fill(broker.address, records)
        copier = CopierProcess(folder, broker.address, records, batch)
        while (code := _watch(copier, random.randint(1, 2 * between))) != 0:
            if code == UNABLE:
                outcome.kills["copier gave up"] += 1
                copier.kill()
                copier = CopierProcess(folder, broker.address, records, batch)
            elif outcome.kills["copier"] + outcome.kills["broker"] < kills:
                time.sleep(random.uniform(0, _LONGEST_DELAY_S))
                victims = random.choice([("copier",), ("broker",), ("copier", "broker")])
                outcome.kills.update(victims)
                if "copier" in victims:
                    copier.kill()
                if "broker" in victims:
                    broker.kill()
                    broker.start()
                if "copier" in victims:
                    copier = CopierProcess(folder, broker.address, records, batch)
        outcome.copies = _copies(broker.address)
    finally:
        if copier is not None:
            copier.kill()
        broker.kill()
    outcome.seconds = time.monotonic() - began
    return outcome


def _watch(copier: CopierProcess, transactions: int) -> int | None:
    """Wait for so many transactions; returns the copier's exit code where it ends before."""
    deadline = time.monotonic() + _TIMEOUT_S
    while transactions > 0:
        assert time.monotonic() < deadline, "the copier makes no progress"
        try:
            copier.progress.get(timeout=0.1)
            transactions -= 1
        except Empty:
            code = copier.process.poll()
            if code is not None:
                assert code in (0, UNABLE), f"the copier ended with {code}"
                return code
    return None


def _fill(address: str, records: int) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    for future in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in (SOURCE, SINK)]).values():
        future.result(_TIMEOUT_S)
    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 5})
    for number in range(records):
        producer.produce(SOURCE, str(number).encode(), partition=number % PARTITIONS)
        if number % 10_000 == 0:
            producer.flush(_TIMEOUT_S)
    assert producer.flush(_TIMEOUT_S) == 0


def _copies(address: str) -> Counter[int]:
    """How often a consumer with read_committed finds each record in the sink."""
    options = {"bootstrap.servers": address, "group.id": "judge", "enable.auto.commit": False}
    consumer = Consumer({**options, "isolation.level": "read_committed", "enable.partition.eof": True})
    consumer.assign([TopicPartition(SINK, number, 0) for number in range(PARTITIONS)])
    found: Counter[int] = Counter()
    ended: set[int] = set()
    deadline = time.monotonic() + _TIMEOUT_S
    while len(ended) < PARTITIONS:
        assert time.monotonic() < deadline, "the sink cannot be read to its end"
        for message in consumer.consume(1000, 0.5):
            if message.error() is None:
                found[int(message.value() or b"-1")] += 1
            else:
                ended.add(message.partition() or 0)
    consumer.close()
    return found
