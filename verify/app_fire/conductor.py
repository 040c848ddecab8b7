"""The conductor: fills the topics, causes faults while the app works, waits for its end, and collects the evidence."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Self

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from tools.brokers import BrokerProcesses

from verify.app_fire.checks import Evidence, Handled, Seen, Stored
from verify.app_fire.crew import Crew
from verify.app_fire.handlers import ATTEMPTS, is_broken
from verify.app_fire.journal import END, Journals

PARTITIONS = 4
CUSTOMERS = 40
HANDLERS = (
    Handled("once", "orders", letters="once.dead", results="copies"),
    Handled("chain", "copies", results="finals"),
    Handled("least", "orders", letters="least.dead"),
    Handled("classic", "orders", letters="classic.dead"),
    Handled("process", "orders", letters="process.dead"),
    Handled("table", "orders"),
    Handled("jobs", "jobs", letters="jobs.dead", is_ordered=False),
)
_TOPICS = (
    "orders", "copies", "finals", "jobs", "once.dead", "least.dead", "classic.dead", "process.dead", "jobs.dead",
)  # fmt: skip
_GROUPS = {
    "once": "orders", "chain": "copies", "least": "orders", "classic": "orders", "process": "orders", "table": "orders",
}  # fmt: skip
_SHARE_OF_JOBS = 8
"""One job for so many orders: jobs are long."""
FREEZE_S = 8.0
"""Longer than a session and than a lock."""
_TIMEOUT_S = 180.0
_LOOK_S = 0.1
_AHEAD = 400
_END_OF_PARTITION = -191


@dataclass
class Outcome:
    """The faults, and the evidence."""

    evidence: Evidence
    done: Counter[str] = field(default_factory=Counter)
    """Faults by kind."""
    seconds: float = 0.0
    exit_codes: list[int] = field(default_factory=list)
    """Of workers that were asked to stop."""

    def problems(self) -> list[str]:
        """What is wrong; nothing where all is well."""
        failed = [code for code in self.exit_codes if code]
        return [*self.evidence.problems(), *(f"a worker that was asked to stop ended with {code}" for code in failed)]


class Progress(threading.Thread):
    """Reads the journals as they grow; others wait for it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(name="progress", daemon=True)
        self.journals = Journals(folder)
        self._ended: dict[str, set[int]] = {one.name: set() for one in HANDLERS}
        self._changed = threading.Condition()
        self._is_over = threading.Event()

    def run(self) -> None:
        while not self._is_over.wait(_LOOK_S):
            self._read()

    def _read(self) -> None:
        new = self.journals.read()
        with self._changed:
            for event in new:
                if event.what == END:
                    self._ended[event.handler].add(event.number)
            self._changed.notify_all()

    @property
    def slowest(self) -> int:
        """How many orders the slowest stream has ended."""
        return min(len(self._ended[name]) for name in _GROUPS)

    def await_orders(self, count: int) -> None:
        """Wait until the slowest stream has ended so many; raises where it stalls."""
        while self.slowest < count:
            before = self.slowest
            with self._changed:
                is_moving = self._changed.wait_for(lambda: self.slowest > before, _TIMEOUT_S)  # noqa: B023
            assert is_moving, f"the app makes no progress: {before} of {count}"

    def await_jobs(self, wanted: set[int]) -> None:
        with self._changed:
            is_done = self._changed.wait_for(lambda: wanted <= self._ended["jobs"], _TIMEOUT_S)
        assert is_done, f"jobs are not done: {sorted(wanted - self._ended['jobs'])[:10]}"

    def stop(self) -> None:
        self._is_over.set()
        self.join(_TIMEOUT_S)
        self._read()


class Load(threading.Thread):
    """Orders and jobs, a little ahead of the app."""

    def __init__(self, address: str, records: int, progress: Progress) -> None:
        super().__init__(name="load", daemon=True)
        self._address, self._records, self._progress = address, records, progress

    def run(self) -> None:
        settings: dict[str, Any] = {"enable.idempotence": True, "linger.ms": 5, "partitioner": "murmur2_random"}
        producer = Producer({"bootstrap.servers": self._address, "log_level": 0, **settings})
        for number in range(self._records):
            self._progress.await_orders(min(number, self._records * 9 // 10) - _AHEAD)
            customer = f"c{number * 7919 % CUSTOMERS}"
            value = json.dumps({"number": number, "customer": customer}).encode()
            producer.produce("orders", value, customer)
            if number % _SHARE_OF_JOBS == 0:
                job = json.dumps({"number": number // _SHARE_OF_JOBS, "customer": customer}).encode()
                producer.produce("jobs", job, customer)
            producer.poll(0)
        assert producer.flush(_TIMEOUT_S) == 0


class Observer(threading.Thread):
    """Looks at the committed offsets of groups, again and again."""

    def __init__(self, address: str) -> None:
        super().__init__(name="observer", daemon=True)
        self._address = address
        self._is_over = threading.Event()
        self.seen: list[Seen] = []

    def run(self) -> None:
        with Offsets(self._address) as offsets:
            while not self._is_over.wait(_LOOK_S):
                for group in _GROUPS:
                    self.seen += offsets.look(group)

    def await_first_commits(self) -> None:
        """Wait until every group has committed: the first transaction of a cluster makes the topic of transactions."""
        deadline = time.monotonic() + _TIMEOUT_S
        while left := _GROUPS.keys() - {one.group for one in list(self.seen)}:
            assert time.monotonic() < deadline, f"the groups {sorted(left)} commit nothing"
            time.sleep(_LOOK_S)

    def stop(self) -> None:
        self._is_over.set()
        self.join(_TIMEOUT_S)


class Offsets:
    """Committed offsets as another client reads them, without joining the groups; for one thread."""

    def __init__(self, address: str) -> None:
        settings: dict[str, Any] = {"bootstrap.servers": address, "log_level": 0, "isolation.level": "read_uncommitted"}
        self._consumers = {group: Consumer({**settings, "group.id": group}) for group in _GROUPS}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for consumer in self._consumers.values():
            consumer.close()

    def look(self, group: str) -> list[Seen]:
        """The group's offsets now; nothing where no coordinator answers."""
        wanted = [TopicPartition(_GROUPS[group], number) for number in range(PARTITIONS)]
        try:
            found = self._consumers[group].committed(wanted, 5.0)
        except KafkaException:  # A coordinator that is being killed: the next look finds another.
            return []
        now_s = time.monotonic()
        return [Seen(group, one.partition, one.offset, now_s) for one in found if one.error is None and one.offset >= 0]


def work_under_fire(folder: Path, brokers: BrokerProcesses, records: int, faults: int, seed: int) -> Outcome:
    """Let the app handle so many orders, with so many faults."""
    random, began, done = Random(seed), time.monotonic(), Counter[str]()
    for topic in _TOPICS:
        brokers.create(topic, PARTITIONS)
    _begin_with_the_first(brokers.bootstrap, "jobs")
    progress, observer = Progress(folder), Observer(brokers.bootstrap)
    load = Load(brokers.bootstrap, records, progress)
    fire = Fire(brokers, Crew(folder, brokers.bootstrap), random)
    try:
        fire.crew.start()
        progress.start()
        load.start()
        observer.start()
        observer.await_first_commits()
        for number, what in enumerate(_plan(random, faults), 1):
            progress.await_orders(records * number // (faults + 2) * 9 // 10)
            time.sleep(random.uniform(0, 0.3))
            done[what] += 1
            fire.cause(what)
        fire.heal()
        load.join(_TIMEOUT_S)
        _await_end(brokers.bootstrap)
        progress.await_jobs({number for number in range(-(-records // _SHARE_OF_JOBS)) if not is_broken(number)})
        fire.crew.stop()
    finally:
        observer.stop()
        fire.crew.kill_all()
        progress.stop()
    topics = {topic: read_committed(brokers.bootstrap, topic) for topic in _TOPICS}
    evidence = Evidence(
        HANDLERS, ATTEMPTS, is_broken, progress.journals.events, topics, observer.seen, fire.crew.killed_s,
        fire.crew.frozen_s, fire.broker_killed_s,
    )  # fmt: skip
    return Outcome(evidence, done, time.monotonic() - began, fire.crew.exit_codes)


class Fire:
    """Faults on brokers and workers."""

    def __init__(self, brokers: BrokerProcesses, crew: Crew, random: Random) -> None:
        self.crew = crew
        self.broker_killed_s: list[float] = []
        self._brokers = brokers
        self._random = random
        self._dead: int | None = None

    def cause(self, what: str) -> None:
        match what:
            case "worker":
                self.crew.kill_one(self._random)
            case "rebalance":
                self.crew.change_guest()
            case "freeze":
                self.crew.freeze_one(self._random, FREEZE_S)
            case "broker":
                self.heal()
                self._dead = self._random.randrange(len(self._brokers.ports))
                self.broker_killed_s.append(time.monotonic())
                self._brokers.kill(self._dead)

    def heal(self) -> None:
        """Start the broker that is dead, and wait until it is in sync."""
        if self._dead is not None:
            self._brokers.start(self._dead)
            self._dead = None
            for topic in _TOPICS:
                self._brokers.until_in_sync(topic)


def _plan(random: Random, faults: int) -> list[str]:
    kinds = ("worker", "rebalance", "worker", "broker", "worker", "rebalance", "freeze", "broker")
    plan = [kinds[number % len(kinds)] for number in range(faults)]
    random.shuffle(plan)
    return plan


def _await_end(address: str) -> None:
    """Wait until the groups have committed everything."""
    deadline = time.monotonic() + _TIMEOUT_S
    with Offsets(address) as offsets:
        while left := [group for group, topic in _GROUPS.items() if _has_lag(offsets, address, group, topic)]:
            assert time.monotonic() < deadline, f"the groups {left} do not commit their last records"
            time.sleep(_LOOK_S)


def _has_lag(offsets: Offsets, address: str, group: str, topic: str) -> bool:
    committed = {one.partition: one.offset for one in offsets.look(group)}
    last: dict[int, int] = {}
    for one in read_committed(address, topic):
        last[one.partition] = max(last.get(one.partition, -1), one.offset)
    return any(committed.get(partition, -1) <= offset for partition, offset in last.items())


def _begin_with_the_first(address: str, group: str) -> None:
    entry = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": address})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(_TIMEOUT_S)


def read_committed(address: str, topic: str) -> list[Stored]:
    """A topic to its end, as a reader of committed records finds it."""
    options: dict[str, Any] = {"group.id": "judge", "enable.auto.commit": False, "enable.partition.eof": True}
    consumer = Consumer({"bootstrap.servers": address, "isolation.level": "read_committed", "log_level": 0, **options})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    found: list[Stored] = []
    ended: set[int] = set()
    deadline = time.monotonic() + _TIMEOUT_S
    while len(ended) < PARTITIONS:
        assert time.monotonic() < deadline, f"{topic} cannot be read to its end"
        for message in consumer.consume(1000, 0.5):
            partition, offset = message.partition() or 0, message.offset() or 0
            fault = message.error()
            if fault is None:
                row = json.loads(message.value() or b"")
                found.append(Stored(partition, offset, row["number"], row["customer"]))
            elif fault.code() == _END_OF_PARTITION:
                ended.add(partition)
    consumer.close()
    return found
