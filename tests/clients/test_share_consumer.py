"""librdkafka's share consumer: what an application sees of accepting, releasing, rejecting and of dead letters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from time import monotonic

import pytest
from confluent_kafka import AcknowledgeType, Message, Producer, ShareConsumer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from qanat.testing import EmbeddedBroker

TIMEOUT_S = 40.0
GROUP = "workers"


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    settings = {
        "group.share.heartbeat.interval.ms": 200,
        "group.share.record.lock.duration.ms": 2_000,
        "share.coordinator.state.topic.num.partitions": 3,
    }
    with EmbeddedBroker(settings=settings) as running:
        yield running


def configure(broker: EmbeddedBroker, **settings: str) -> None:
    entries = [
        ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for name, value in {"share_auto_offset_reset": "earliest", **settings}.items()
    ]
    resource = ConfigResource(ResourceType.GROUP, GROUP, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for outcome in admin.incremental_alter_configs([resource]).values():
        outcome.result(TIMEOUT_S)


def produce(broker: EmbeddedBroker, count: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(count):
        producer.produce("orders", b"%d" % number, b"key", headers=[("number", b"%d" % number)])
    assert producer.flush(TIMEOUT_S) == 0


def consumer(broker: EmbeddedBroker, mode: str = "explicit") -> ShareConsumer:
    share = ShareConsumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": GROUP, "share.acknowledgement.mode": mode}
    )
    share.subscribe(["orders"])
    return share


def work(share: ShareConsumer, handle: Callable[[Message], None], is_done: Callable[[], bool]) -> None:
    """Poll until the work is done, or patience is at its end."""
    deadline = monotonic() + TIMEOUT_S
    while not is_done():
        assert monotonic() < deadline, "waited in vain"
        for message in share.poll(0.3) or []:
            assert message.error() is None, message.error()
            handle(message)


def test_every_record_is_worked_on_once_and_never_again(broker: EmbeddedBroker) -> None:
    broker.create_topic("orders", 3)
    configure(broker)
    produce(broker, 500)
    seen: Counter[bytes] = Counter()
    # One after the other: all records have one key, and which of two members gets their partition is left to chance.
    with_first = consumer(broker)

    def accept(share: ShareConsumer) -> Callable[[Message], None]:
        def handle(message: Message) -> None:
            value = message.value()
            assert value is not None
            seen[value] += 1
            share.acknowledge(message)

        return handle

    work(with_first, accept(with_first), lambda: len(seen) >= 300)
    with_first.commit_sync(TIMEOUT_S)
    with_first.close()
    with_second = consumer(broker)
    work(with_second, accept(with_second), lambda: len(seen) == 500)
    with_second.commit_sync(TIMEOUT_S)
    with_second.close()
    assert set(seen.values()) == {1}
    last = consumer(broker, mode="implicit")
    assert [message for _ in range(5) for message in last.poll(0.2) or []] == []
    last.close()


def test_what_is_released_comes_again_and_what_is_rejected_lies_in_the_dead_letter_topic(
    broker: EmbeddedBroker,
) -> None:
    broker.create_topic("orders", 1)
    configure(broker, errors_deadletterqueue_topic_name="orders.dead", share_delivery_count_limit="3")
    produce(broker, 20)
    share = consumer(broker)
    deliveries: Counter[int] = Counter()
    accepted: set[int] = set()

    def handle(message: Message) -> None:
        number = int(message.value() or b"")
        deliveries[number] += 1
        if number % 5 == 1:
            share.acknowledge(message, AcknowledgeType.REJECT)
        elif number % 5 == 2 or (number % 5 == 3 and deliveries[number] == 1):
            share.acknowledge(message, AcknowledgeType.RELEASE)
        else:
            share.acknowledge(message)
            accepted.add(number)

    work(share, handle, lambda: len(accepted) == 12 and all(deliveries[number] == 3 for number in (2, 7, 12, 17)))
    share.commit_sync(TIMEOUT_S)
    letters = broker.wait_for("orders.dead", 8, TIMEOUT_S)
    share.close()
    assert {number: deliveries[number] for number in (0, 1, 2, 3, 4)} == {0: 1, 1: 1, 2: 3, 3: 2, 4: 1}
    letters_by_number = {int(letter.value or b""): dict(letter.headers) for letter in letters}
    assert sorted(letters_by_number) == [1, 2, 6, 7, 11, 12, 16, 17]
    assert letters_by_number[6]["number"] == b"6"
    assert letters_by_number[6]["__dlq.errors.message"] == b"rejected"
    assert letters_by_number[7]["__dlq.errors.delivery.count"] == b"3"


def test_who_says_nothing_loses_the_record_to_another(broker: EmbeddedBroker) -> None:
    broker.create_topic("orders", 1)
    configure(broker)
    produce(broker, 1)
    idle, busy = consumer(broker), consumer(broker)
    held: list[Message] = []
    work(idle, held.append, lambda: bool(held))
    taken: list[Message] = []

    def take(message: Message) -> None:
        taken.append(message)
        busy.acknowledge(message)

    work(busy, take, lambda: bool(taken))
    busy.commit_sync(TIMEOUT_S)
    assert (held[0].value(), taken[0].value()) == (b"0", b"0")
    for share in (idle, busy):
        share.close()
