"""Every client does everything that the documentation's table says, against one real broker."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

import pytest
from tests.clients.capabilities import ACKS, Client, Member, Progress
from tests.clients.conftest import can
from tests.testing.clients import produce

from qanat.testing import EmbeddedBroker
from qanat.wire.batch_header import read_header, split_batches
from qanat.wire.compression import Codec

# What the clients warn of is theirs to mend.
pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)

SECONDS = 60
OLD_MS = 1_600_000_000_000


def stored_codecs(broker: EmbeddedBroker, topic: str) -> set[str]:
    """In which codecs the batches of partition 0 were really sent."""
    partition = broker.node.broker.lookup.led(topic, 0)
    log = partition.log  # type: ignore[union-attr]
    read = log.read(log.log_start_offset, 1 << 20, log.high_watermark)
    batches = [batch for view in read.views() for batch in split_batches(view)]
    return {Codec(read_header(batch).codec).name.lower() for batch in batches}


def pump_until(is_done: Callable[[], bool], *members: tuple[Member, Progress]) -> None:
    """Let members work in turn until something holds; what they get is gathered in their progress."""
    deadline = time.monotonic() + SECONDS
    while not is_done():
        assert time.monotonic() < deadline, [progress for _, progress in members]
        for member, progress in members:
            step = member.pump()
            progress.assigned = step.assigned
            progress.values += step.values


@can("create")
def test_it_creates_a_topic(client: Client, broker: EmbeddedBroker, topic: str) -> None:
    client.create(topic, 3)

    numbers = {at.partition for at in broker.node.broker.partitions if at.topic == topic}
    assert numbers in ({0, 1, 2}, {0, 1, 2, 3}), "as many as asked, or the broker's default"


@can("describe")
def test_it_describes_a_topic(client: Client, broker: EmbeddedBroker, topic: str) -> None:
    broker.create_topic(topic, partitions=3)

    assert client.describe(topic) == 3


@can("acks")
@pytest.mark.parametrize("acks", ACKS)
def test_it_produces_with_every_level_of_acknowledgement(
    client: Client, broker: EmbeddedBroker, topic: str, acks: str
) -> None:
    broker.create_topic(topic)
    client.produce(topic, ["one", "two"], acks=acks)

    assert [record.value for record in broker.wait_for(topic, 2)] == [b"one", b"two"]


@can("compression")
def test_it_writes_and_reads_every_codec_it_has(client: Client, broker: EmbeddedBroker, topic: str) -> None:
    """Sent as asked: a client that does not trust the broker's versions sends uncompressed in silence."""
    for codec in client.codecs:
        named = f"{topic}-{codec}"
        broker.create_topic(named)
        values = [f"{codec} " * 50 + str(number) for number in range(20)]
        client.produce(named, values, codec=codec)

        assert stored_codecs(broker, named) == {codec}
        assert client.read(named, 0, 20) == values


@can("assignment")
def test_it_reads_from_any_offset_by_assignment(client: Client, broker: EmbeddedBroker, topic: str) -> None:
    broker.create_topic(topic)
    client.produce(topic, ["a", "b", "c", "d"])

    assert client.read(topic, 0, 4) == ["a", "b", "c", "d"]
    assert client.read(topic, 2, 2) == ["c", "d"]


@can("group")
def test_it_reads_as_a_member_of_a_group(client: Client, broker: EmbeddedBroker, topic: str) -> None:
    broker.create_topic(topic, partitions=2)
    client.produce(topic, ["a", "b", "c"])
    progress = Progress()
    member = client.join(topic, topic)
    pump_until(lambda: len(progress.values) >= 3, (member, progress))
    member.leave()

    assert progress.values == ["a", "b", "c"]
    assert progress.assigned == {0, 1}


@can("resume")
def test_it_commits_and_the_next_member_goes_on_from_there(client: Client, broker: EmbeddedBroker, topic: str) -> None:
    broker.create_topic(topic)
    client.produce(topic, ["a", "b"])
    first, second = Progress(), Progress()
    member = client.join(topic, topic)
    pump_until(lambda: len(first.values) >= 2, (member, first))
    member.commit()
    member.leave()
    client.produce(topic, ["c", "d"])
    member = client.join(topic, topic)
    pump_until(lambda: len(second.values) >= 2, (member, second))
    member.leave()

    assert (first.values, second.values) == (["a", "b"], ["c", "d"])


@can("rebalance")
def test_partitions_move_when_a_member_comes_and_when_it_goes(
    client: Client, broker: EmbeddedBroker, topic: str
) -> None:
    broker.create_topic(topic, partitions=4)
    one, two = Progress(), Progress()
    first = client.join(topic, topic)
    pump_until(lambda: len(one.assigned) == 4, (first, one))

    second = client.join(topic, topic)
    pump_until(
        lambda: len(one.assigned) == 2 == len(two.assigned) and not one.assigned & two.assigned,
        (first, one),
        (second, two),
    )
    assert Counter(one.assigned | two.assigned) == Counter(range(4))

    second.leave()
    pump_until(lambda: len(one.assigned) == 4, (first, one))
    first.leave()


@can("timestamp")
def test_it_finds_an_offset_by_its_time(client: Client, broker: EmbeddedBroker, topic: str) -> None:
    broker.create_topic(topic, configs={"retention.ms": -1})
    for number in range(4):
        produce(broker, topic, b"x", timestamp=OLD_MS + 1000 * number)

    assert client.offset_at(topic, OLD_MS + 1500) == 2
    assert client.offset_at(topic, OLD_MS) == 0


@can("delete")
def test_it_deletes_a_topic(client: Client, broker: EmbeddedBroker, topic: str) -> None:
    broker.create_topic(topic, partitions=2)
    client.delete(topic)

    assert topic not in broker.topics()
