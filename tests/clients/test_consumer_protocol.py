"""Groups of the new protocol (KIP-848) with clients that speak it: librdkafka; Java's and franz-go where they are."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from tests.clients.go_clients import FranzGo
from tests.clients.java_client import JavaClient
from tests.fetching import Unavailable

from qanat.groups.consumer.group import ConsumerGroup
from qanat.testing import EmbeddedBroker

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)

SECONDS = 40
PARTITIONS = 4


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    settings = {"group.consumer.heartbeat.interval.ms": 100, "group.initial.rebalance.delay.ms": 0}
    with EmbeddedBroker(settings=settings) as running:
        yield running


@pytest.fixture
def topic(broker: EmbeddedBroker) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    broker.create_topic(name, partitions=PARTITIONS)
    return name


class Member:
    """A librdkafka consumer in a group, and what it has got."""

    def __init__(self, broker: EmbeddedBroker, group: str, topics: Sequence[str], **options: Any) -> None:
        settings = {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": group,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 20,
            "topic.metadata.refresh.interval.ms": 200,
        }
        self._consumer = Consumer(settings | {name.replace("_", "."): value for name, value in options.items()})
        self._consumer.subscribe(list(topics))
        self.got: list[str] = []

    def pump(self) -> None:
        for message in self._consumer.consume(100, 0.05):
            value = message.value()
            if message.error() is None and value is not None:
                self.got.append(value.decode())

    @property
    def assigned(self) -> list[TopicPartition]:
        return list(self._consumer.assignment())

    @property
    def size(self) -> int:
        return len(self.assigned)

    def commit(self) -> None:
        self._consumer.commit(asynchronous=False)

    def close(self) -> None:
        self._consumer.close()


def pump_until(holds: Callable[[], bool], *members: Member) -> None:
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline, [(one.size, len(one.got)) for one in members]
        for member in members:
            member.pump()


def produce(broker: EmbeddedBroker, topic: str, values: Sequence[str]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0})
    for number, value in enumerate(values):
        producer.produce(topic, value.encode(), partition=number % PARTITIONS)
    assert producer.flush(SECONDS) == 0


def group_of(broker: EmbeddedBroker, group: str) -> ConsumerGroup | None:
    shards = broker.node.broker.groups.loaded()
    return next((shard.ledger.consumers[group] for shard in shards if group in shard.ledger.consumers), None)


def test_members_come_and_go_and_every_partition_has_one_reader(broker: EmbeddedBroker, topic: str) -> None:
    first = Member(broker, topic, [topic])
    pump_until(lambda: first.size == 4, first)
    second, third = Member(broker, topic, [topic]), Member(broker, topic, [topic])
    pump_until(lambda: sorted([first.size, second.size, third.size]) == [1, 1, 2], first, second, third)
    held = [at.partition for member in (first, second, third) for at in member.assigned]
    assert sorted(held) == [0, 1, 2, 3]
    second.close()
    pump_until(lambda: (first.size, third.size) == (2, 2), first, third)
    first.close()
    pump_until(lambda: third.size == 4, third)
    third.close()


def test_what_is_committed_is_not_read_again(broker: EmbeddedBroker, topic: str) -> None:
    produce(broker, topic, [str(number) for number in range(40)])
    first = Member(broker, topic, [topic])
    pump_until(lambda: len(first.got) == 40, first)
    first.commit()
    first.close()
    produce(broker, topic, ["new"])
    second = Member(broker, topic, [topic])
    pump_until(lambda: second.got != [], second)
    assert second.got == ["new"]
    second.close()


def test_everything_is_read_once_while_members_come_and_go(broker: EmbeddedBroker, topic: str) -> None:
    first = Member(broker, topic, [topic], enable_auto_commit=True, auto_commit_interval_ms=50)
    pump_until(lambda: first.size == 4, first)
    values = [str(number) for number in range(400)]
    produce(broker, topic, values[:200])
    second = Member(broker, topic, [topic], enable_auto_commit=True, auto_commit_interval_ms=50)
    pump_until(lambda: (first.size, second.size) == (2, 2), first, second)
    produce(broker, topic, values[200:])
    pump_until(lambda: len({*first.got, *second.got}) == 400, first, second)
    assert sorted(first.got + second.got) == sorted(values)
    second.close()
    first.close()


def test_a_subscription_by_expression_follows_the_topics(broker: EmbeddedBroker, topic: str) -> None:
    member = Member(broker, topic, [f"^{topic}(-more)?$"])
    pump_until(lambda: member.size == 4, member)
    broker.create_topic(f"{topic}-more", partitions=2)
    broker.create_topic(f"{topic}-other", partitions=2)
    pump_until(lambda: member.size == 6, member)
    group = group_of(broker, topic)
    assert group is not None
    assert list(group.expressions) == [f"(^{topic}(-more)?$)"], "the coordinator looks, not the client"
    member.close()


def test_a_static_member_finds_its_place_again_and_nobody_else_notices(broker: EmbeddedBroker, topic: str) -> None:
    static = Member(broker, topic, [topic], group_instance_id="one")
    other = Member(broker, topic, [topic])
    pump_until(lambda: (static.size, other.size) == (2, 2), static, other)
    group = group_of(broker, topic)
    assert group is not None
    epoch, held = group.epoch, [at.partition for at in static.assigned]
    static.close()
    back = Member(broker, topic, [topic], group_instance_id="one")
    pump_until(lambda: back.size == 2, back, other)
    assert ([at.partition for at in back.assigned], group.epoch) == (held, epoch)
    back.close()
    other.close()


def test_a_group_passes_to_the_new_protocol_and_back_while_it_works(broker: EmbeddedBroker, topic: str) -> None:
    """A rolling restart: both members are there all the time, one of each protocol in between."""
    classic = {"group_protocol": "classic", "heartbeat_interval_ms": 100}
    first = Member(broker, topic, [topic], **classic)
    pump_until(lambda: first.size == 4, first)
    assert group_of(broker, topic) is None
    second = Member(broker, topic, [topic])
    pump_until(lambda: (first.size, second.size) == (2, 2), first, second)
    group = group_of(broker, topic)
    assert group is not None
    assert len(group.classic_members) == 1
    produce(broker, topic, ["a", "b", "c", "d"])
    pump_until(lambda: sorted(first.got + second.got) == ["a", "b", "c", "d"], first, second)
    first.commit()
    second.commit()
    second.close()
    pump_until(lambda: first.size == 4, first)
    assert group_of(broker, topic) is None
    produce(broker, topic, ["e"])
    pump_until(lambda: "e" in first.got, first)
    assert sorted(first.got + second.got) == ["a", "b", "c", "d", "e"]
    first.close()


def test_an_administrator_sees_the_group(broker: EmbeddedBroker, topic: str) -> None:
    member = Member(broker, topic, [topic])
    pump_until(lambda: member.size == 4, member)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    (future,) = admin.describe_consumer_groups([topic]).values()
    described = future.result(SECONDS)
    assert (described.type.name, described.state.name) == ("CONSUMER", "STABLE")
    assert len(described.members[0].assignment.topic_partitions) == 4
    listed = admin.list_consumer_groups().result(SECONDS)
    assert [one.type.name for one in listed.valid if one.group_id == topic] == ["CONSUMER"]
    member.close()


@pytest.mark.parametrize("of", [JavaClient, FranzGo])
def test_another_client_reads_beside_librdkafka_in_one_group(
    broker: EmbeddedBroker, topic: str, of: type[JavaClient | FranzGo]
) -> None:
    try:
        other = of(broker.bootstrap_servers)
    except Unavailable as reason:
        pytest.skip(f"{of.__name__} is not tried: {reason}")
    try:
        theirs = other.join(topic, topic, protocol="consumer")
        mine = Member(broker, topic, [topic])
        sizes: list[int] = [0]
        got: list[str] = []

        def pumped() -> bool:
            progress = theirs.pump()
            sizes[0] = len(progress.assigned)
            got.extend(progress.values)
            return (sizes[0], mine.size) == (2, 2)

        pump_until(pumped, mine)
        group = group_of(broker, topic)
        assert group is not None
        assert not group.classic_members
        produce(broker, topic, ["a", "b", "c", "d"])
        pump_until(lambda: pumped() and sorted(mine.got + got) == ["a", "b", "c", "d"], mine)
        theirs.commit()
        theirs.leave()
        pump_until(lambda: mine.size == 4, mine)
        mine.close()
    finally:
        other.close()
