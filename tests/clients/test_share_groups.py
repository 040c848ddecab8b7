"""Share groups (KIP-932) with a client that speaks them: confluent-kafka's ShareConsumer."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import AcknowledgeType, Consumer, Message, Producer, ShareConsumer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)

from qanat.testing import EmbeddedBroker

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)

SECONDS = 40
PARTITIONS = 3
LOCK_MS = 1_500


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    settings = {
        "group.share.heartbeat.interval.ms": 200,
        "group.share.session.timeout.ms": 3_000,
        "group.share.record.lock.duration.ms": LOCK_MS,
        "group.share.delivery.count.limit": 3,
    }
    with EmbeddedBroker(settings=settings) as running:
        yield running


@pytest.fixture
def topic(broker: EmbeddedBroker) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    broker.create_topic(name, partitions=PARTITIONS)
    return name


@pytest.fixture
def group(broker: EmbeddedBroker) -> str:
    name = f"g-{uuid.uuid4().hex[:8]}"
    set_for_group(broker, name, **{"share.auto.offset.reset": "earliest"})
    return name


def set_for_group(broker: EmbeddedBroker, group: str, **settings: str) -> None:
    resource = ConfigResource(ConfigResource.Type.GROUP, group)
    for name, value in settings.items():
        resource.add_incremental_config(ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(SECONDS)


def produce(broker: EmbeddedBroker, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "batch.num.messages": 1})
    for number in range(count):
        producer.produce(topic, str(number).encode(), partition=number % PARTITIONS)
    assert producer.flush(SECONDS) == 0


class Worker:
    """A share consumer that acknowledges each record as configured, and remembers it."""

    def __init__(self, broker: EmbeddedBroker, group: str, topic: str, **options: Any) -> None:
        settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": group, "log_level": 0}
        settings |= {"share.acknowledgement.mode": "explicit"}
        self.consumer = ShareConsumer(settings | {name.replace("_", "."): value for name, value in options.items()})
        self.consumer.subscribe([topic])
        self.got: list[int] = []
        self.attempts: list[int | None] = []

    def pump(self, verdict: Callable[[int], AcknowledgeType | None] = lambda number: AcknowledgeType.ACCEPT) -> None:
        """Poll once; None leaves the records of the poll unsaid, which ends in the lock's running out."""
        messages: list[Message] = [one for one in self.consumer.poll(0.2) if one.error() is None]
        for message in messages:
            number = int(message.value() or b"-1")
            self.got.append(number)
            self.attempts.append(message.delivery_count())
            said = verdict(number)
            if said is not None:
                self.consumer.acknowledge(message, said)
        if messages:
            assert set(self.consumer.commit_sync(SECONDS).values()) <= {None}

    def close(self) -> None:
        self.consumer.close()


def until(holds: Callable[[], bool], act: Callable[[], object]) -> None:
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline, "waited in vain"
        act()


def test_each_record_is_given_to_one_of_several(broker: EmbeddedBroker, topic: str, group: str) -> None:
    workers = [Worker(broker, group, topic) for _ in range(4)]
    produce(broker, topic, 120)

    def all_pump() -> None:
        for one in workers:
            one.pump()

    until(lambda: sum(len(one.got) for one in workers) >= 120, all_pump)

    assert sorted(number for one in workers for number in one.got) == list(range(120))
    for one in workers:
        one.close()


def test_implicit_acknowledgement_is_enough(broker: EmbeddedBroker, topic: str, group: str) -> None:
    produce(broker, topic, 30)
    first = Worker(broker, group, topic, share_acknowledgement_mode="implicit")
    until(lambda: len(first.got) >= 30, lambda: first.pump(lambda number: None))
    first.close()
    second = Worker(broker, group, topic)
    produce(broker, topic, 1)
    until(lambda: bool(second.got), second.pump)

    assert sorted(first.got) == list(range(30))
    assert second.got == [0], "nothing of what was accepted comes again"
    second.close()


def test_a_released_record_comes_again_with_a_higher_count(broker: EmbeddedBroker, topic: str, group: str) -> None:
    produce(broker, topic, 1)
    worker = Worker(broker, group, topic)
    verdicts = [AcknowledgeType.RELEASE, AcknowledgeType.ACCEPT]
    until(lambda: len(worker.got) >= 2, lambda: worker.pump(lambda number: verdicts[len(worker.got) - 1]))

    assert (worker.got, worker.attempts) == ([0, 0], [1, 2])
    worker.close()


def test_what_is_rejected_or_fails_too_often_is_a_dead_letter(broker: EmbeddedBroker, topic: str, group: str) -> None:
    set_for_group(broker, group, **{"errors.deadletterqueue.topic.name": f"{topic}-dead"})
    broker.create_topic(f"{topic}-dead", partitions=1)
    produce(broker, topic, 6)
    said = {1: AcknowledgeType.REJECT, 4: AcknowledgeType.RELEASE}
    worker = Worker(broker, group, topic)
    letters = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "judge"})
    letters.assign([TopicPartition(f"{topic}-dead", 0, 0)])
    dead: list[int] = []

    def look() -> None:
        worker.pump(lambda number: said.get(number, AcknowledgeType.ACCEPT))
        dead.extend(int(one.value() or b"-1") for one in letters.consume(10, 0.05) if one.error() is None)

    until(lambda: len(dead) >= 2, look)

    assert sorted(dead) == [1, 4]
    assert worker.got.count(4) == 3, "as often as the limit says"
    assert [worker.got.count(number) for number in (0, 1, 2, 3, 5)] == [1] * 5
    letters.close()
    worker.close()


def test_a_lock_that_runs_out_gives_the_record_to_somebody_else(broker: EmbeddedBroker, group: str) -> None:
    topic = f"t-{uuid.uuid4().hex[:8]}"
    broker.create_topic(topic, partitions=1)
    produce(broker, topic, 1)
    idle = Worker(broker, group, topic)
    until(lambda: bool(idle.got), lambda: idle.pump(lambda number: None))
    began = time.monotonic()
    other = Worker(broker, group, topic)
    until(lambda: bool(other.got), other.pump)

    assert (idle.got, other.got, other.attempts) == ([0], [0], [2])
    assert time.monotonic() - began < SECONDS
    idle.close()
    other.close()


def test_a_consumer_that_closes_gives_back_what_it_holds_at_once(
    broker: EmbeddedBroker, topic: str, group: str
) -> None:
    set_for_group(broker, group, **{"share.record.lock.duration.ms": "60000"})
    produce(broker, topic, 1)
    leaving = Worker(broker, group, topic)
    until(lambda: bool(leaving.got), lambda: leaving.pump(lambda number: None))
    leaving.close()
    other = Worker(broker, group, topic)
    until(lambda: bool(other.got), other.pump)

    assert other.got == [0]
    other.close()


def test_a_group_begins_where_its_setting_says(broker: EmbeddedBroker, topic: str) -> None:
    name = f"g-{uuid.uuid4().hex[:8]}"
    produce(broker, topic, 3)
    worker = Worker(broker, name, topic)
    sent: list[int] = []

    def act() -> None:
        worker.pump()
        produce(broker, topic, 3)
        sent.append(3)

    until(lambda: len(worker.got) >= 3, act)

    assert len(worker.got) <= sum(sent), "what was there before it came is not given to it"
    worker.close()
