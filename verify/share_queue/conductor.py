"""The conductor of the queue: fills it, kills and freezes workers, starts new ones, and collects the evidence."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)

from qanat.connection.cluster import Cluster, parse_bootstrap
from qanat.wire.kafka.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from qanat.wire.kafka.registry import ApiKey
from verify.restart.kill import BrokerProcess
from verify.share_queue.judgement import Event, Judgement, read_journal
from verify.share_queue.worker import ACCEPT, verdict_on

QUEUE, LETTERS, GROUP = "queue", "dead-letters", "workers"
PARTITIONS, WORKERS, LIMIT = 4, 8, 4
LOCK_S = 3.0
_TIMEOUT_S = 120.0
_LOOK_S = 0.1
_SETTINGS = (
    "group.share.heartbeat.interval.ms=500",
    "group.share.session.timeout.ms=6000",
    f"group.share.record.lock.duration.ms={int(LOCK_S * 1000)}",
    f"group.share.delivery.count.limit={LIMIT}",
)


@dataclass
class Outcome:
    """The kills, and the judgement."""

    judgement: Judgement
    done: Counter[str] = field(default_factory=Counter)
    """Workers killed and frozen, broker killed."""
    seconds: float = 0.0


class WorkerProcess:
    """A worker and its journal."""

    def __init__(self, folder: Path, address: str, number: int) -> None:
        self.name = f"worker-{number}"
        self.journal = folder / f"{self.name}.journal"
        line = [sys.executable, "-m", "verify.share_queue.worker", address, GROUP, QUEUE, str(self.journal)]
        with (folder / "workers.log").open("ab") as log:
            self.process = subprocess.Popen(line, stdout=log, stderr=log)

    def kill(self) -> float:
        self.process.kill()
        self.process.wait()
        return time.monotonic()


class Crew:
    """The eight running workers, and all earlier ones."""

    def __init__(self, folder: Path, address: str) -> None:
        self._folder, self._address = folder, address
        self.ever: list[WorkerProcess] = []
        self.present: list[WorkerProcess] = []
        self.killed_s: dict[str, float] = {}

    def fill(self) -> None:
        while len(self.present) < WORKERS:
            worker = WorkerProcess(self._folder, self._address, len(self.ever))
            self.ever.append(worker)
            self.present.append(worker)

    def kill(self, worker: WorkerProcess) -> None:
        self.present.remove(worker)
        self.killed_s[worker.name] = worker.kill()

    def events(self) -> list[Event]:
        found = [
            event
            for worker in self.ever
            if worker.journal.exists()
            for event in read_journal(worker.name, worker.journal.read_text())
        ]
        return sorted(found, key=lambda event: event.at_s)


def work_under_kills(folder: Path, records: int, kills: int, broker_kills: int, seed: int) -> Outcome:
    """Let workers empty a queue, with so many kills."""
    random, began, done = Random(seed), time.monotonic(), Counter[str]()
    broker = BrokerProcess(folder, _SETTINGS)
    crew = Crew(folder, broker.address)
    try:
        broker.start()
        _fill(broker.address, records)
        crew.fill()
        to_do = ["worker"] * kills + ["freeze"] * max(kills // 4, 1) + ["broker"] * broker_kills
        random.shuffle(to_do)
        for number, what in enumerate(to_do, 1):
            _await_progress(crew, records * number // (len(to_do) + 1))
            time.sleep(random.uniform(0, 0.05))
            done[what] += 1
            _act(what, crew, broker, random)
        _await_empty(broker.address, crew)
        letters = _letters(broker.address)
    finally:
        for worker in list(crew.present):
            worker.kill()
        broker.kill()
    judgement = Judgement(records, LIMIT, LOCK_S, crew.events(), crew.killed_s, letters, broker_kills > 0)
    return Outcome(judgement, done, time.monotonic() - began)


def _act(what: str, crew: Crew, broker: BrokerProcess, random: Random) -> None:
    worker = random.choice(crew.present)
    if what == "broker":
        broker.kill()
        broker.start()
    elif what == "worker":
        crew.kill(worker)
        crew.fill()
    else:
        # Longer than a lock, so that others get its records; its late acknowledgements must not count.
        worker.process.send_signal(signal.SIGSTOP)
        time.sleep(LOCK_S + 1.0)
        worker.process.send_signal(signal.SIGCONT)


def _await_progress(crew: Crew, accepted: int) -> None:
    deadline = time.monotonic() + _TIMEOUT_S
    while sum(one.what == "done" and one.detail == ACCEPT for one in crew.events()) < accepted * 9 // 10:
        assert time.monotonic() < deadline, "the workers make no progress"
        time.sleep(_LOOK_S)


def _await_empty(address: str, crew: Crew) -> None:
    """Wait until the group reports no lag."""
    deadline = time.monotonic() + _TIMEOUT_S
    while (lag := asyncio.run(lag_of(address))) != 0:
        assert time.monotonic() < deadline, f"{lag} records are left over, with {len(crew.present)} workers"
        time.sleep(_LOOK_S)


async def lag_of(address: str) -> int:
    """The group's lag: records that are not settled yet."""
    async with Cluster(parse_bootstrap(address), "judge", _TIMEOUT_S) as cluster:
        request = DescribeShareGroupOffsetsRequest([DescribeShareGroupOffsetsRequestGroup(GROUP, None)])
        link = await cluster.coordinator_link(GROUP, cluster.deadline())
        response = await link.call(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, request, cluster.deadline())
    rows = [row for topic in response.groups[0].topics for row in topic.partitions]
    return sum(row.lag for row in rows) if len(rows) == PARTITIONS else -1


def _fill(address: str, records: int) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    for future in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in (QUEUE, LETTERS)]).values():
        future.result(_TIMEOUT_S)
    group = ConfigResource(ConfigResource.Type.GROUP, GROUP)
    for name, value in {"share.auto.offset.reset": "earliest", "errors.deadletterqueue.topic.name": LETTERS}.items():
        group.add_incremental_config(ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET))
    for future in admin.incremental_alter_configs([group]).values():
        future.result(_TIMEOUT_S)
    # Records are delivered by batches: small ones reach many workers.
    options = {"enable.idempotence": True, "linger.ms": 5, "batch.num.messages": 5}
    producer = Producer({"bootstrap.servers": address, **options})
    for number in range(records):
        producer.produce(QUEUE, str(number).encode(), partition=number % PARTITIONS)
        if number % 10_000 == 0:
            producer.flush(_TIMEOUT_S)
    assert producer.flush(_TIMEOUT_S) == 0


def _letters(address: str) -> Counter[int]:
    """The records of the dead-letter topic, and how often each is there."""
    options = {"bootstrap.servers": address, "group.id": "judge", "enable.auto.commit": False}
    consumer = Consumer({**options, "enable.partition.eof": True})
    consumer.assign([TopicPartition(LETTERS, number, 0) for number in range(PARTITIONS)])
    found: Counter[int] = Counter()
    ended: set[int] = set()
    deadline = time.monotonic() + _TIMEOUT_S
    while len(ended) < PARTITIONS:
        assert time.monotonic() < deadline, "the dead letters cannot be read to their end"
        for message in consumer.consume(1000, 0.5):
            if message.error() is None:
                found[int(message.value() or b"-1")] += 1
            else:
                ended.add(message.partition() or 0)
    consumer.close()
    return found


def expected_letters(records: int) -> int:
    """How many records must become dead letters."""
    return sum(verdict_on(number) != ACCEPT for number in range(records))
