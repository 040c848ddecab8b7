"""Every client with transactions: commit, abort, offsets in the same transaction, fencing, timeouts."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from tests.clients.capabilities import Client
from tests.clients.conftest import Connect, can
from tests.clients.go_clients import FranzGo

from qanat.broker.replicas.partition import Partition
from qanat.testing import EmbeddedBroker
from qanat.transactions.records import EPOCH_PER_TRANSACTION
from qanat.transactions.states import TransactionState

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)

SECONDS = 60
MINUTE_MS = 60_000
SHORT_MS = 1_500


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def partition(broker: EmbeddedBroker, topic: str) -> Partition:
    found = broker.node.broker.lookup.led(topic, 0)
    assert isinstance(found, Partition)
    return found


def state(broker: EmbeddedBroker, transactional_id: str) -> TransactionState | None:
    shards = broker.node.broker.transactions.topic.loaded()
    records = [shard.shard.ledger.get(transactional_id) for shard in shards]
    return next((record.state for record in records if record is not None), None)


def offset_of(broker: EmbeddedBroker, group: str, topic: str) -> int | None:
    """What the group has committed."""
    found = [
        record.offset
        for shard in broker.node.broker.groups.loaded()
        for record in shard.ledger.offsets.of_group(group)
        if record.topic == topic
    ]
    return found[0] if found else None


@can("transactions")
def test_what_is_committed_is_read_and_what_is_aborted_is_not(
    client: Client, broker: EmbeddedBroker, topic: str
) -> None:
    broker.create_topic(topic)
    producer = client.transactor(topic, MINUTE_MS)
    for value, is_commit in [("a", True), ("b", False), ("c", True), ("d", False), ("e", True)]:
        producer.begin()
        producer.send(topic, value)
        producer.send(topic, value * 2)
        if is_commit:
            producer.commit()
        else:
            producer.abort()
    producer.close()

    assert client.read_committed(topic, 6) == ["a", "aa", "c", "cc", "e", "ee"]
    wait_until(lambda: partition(broker, topic).log.last_stable_offset == partition(broker, topic).log.end_offset)


@can("transactions")
def test_offsets_and_output_come_together_or_not_at_all(client: Client, broker: EmbeddedBroker, topic: str) -> None:
    source, sink = f"{topic}-in", f"{topic}-out"
    broker.create_topic(source)
    broker.create_topic(sink)
    client.produce(source, ["one", "two", "three"])
    producer = client.transactor(topic, MINUTE_MS)
    for position, value in enumerate(client.read(source, 0, 3)):
        for is_commit in (False, True):
            producer.begin()
            producer.send(sink, value.upper())
            producer.send_offset(topic, source, position + 1)
            if is_commit:
                producer.commit()
            else:
                producer.abort()
                wait_until(lambda: state(broker, topic) is TransactionState.COMPLETE_ABORT)
                assert offset_of(broker, topic, source) in (None, position)
        wait_until(lambda position=position: offset_of(broker, topic, source) == position + 1)  # type: ignore[misc]
    producer.close()

    assert client.read_committed(sink, 3) == ["ONE", "TWO", "THREE"]


@can("transactions")
def test_a_second_instance_fences_the_first(client: Client, broker: EmbeddedBroker, topic: str) -> None:
    broker.create_topic(topic)
    first = client.transactor(topic, MINUTE_MS)
    first.begin()
    first.send(topic, "zombie")
    second = client.transactor(topic, MINUTE_MS)
    with pytest.raises(Exception, match=r"."):
        first.commit()
    second.begin()
    second.send(topic, "heir")
    second.commit()
    second.close()

    assert client.read_committed(topic, 1) == ["heir"]
    first.close()


@can("transactions")
def test_a_transaction_that_takes_too_long_is_aborted(client: Client, broker: EmbeddedBroker, topic: str) -> None:
    broker.create_topic(topic)
    slow = client.transactor(topic, SHORT_MS)
    slow.begin()
    slow.send(topic, "late")
    assert partition(broker, topic).log.last_stable_offset == 0
    wait_until(lambda: partition(broker, topic).log.last_stable_offset > 0)
    with pytest.raises(Exception, match=r"."):
        slow.commit()
    next_one = client.transactor(topic, MINUTE_MS)
    next_one.begin()
    next_one.send(topic, "in time")
    next_one.commit()
    next_one.close()

    assert client.read_committed(topic, 1) == ["in time"]
    slow.close()


def test_franz_go_reads_computes_and_writes_in_transactions_of_version_2(
    broker: EmbeddedBroker, connect: Connect, topic: str
) -> None:
    """Its session joins a group, and finds by the finalized feature that it may leave AddOffsetsToTxn out."""
    client = connect("franz-go")
    assert isinstance(client, FranzGo)
    source, sink = f"{topic}-in", f"{topic}-out"
    broker.create_topic(source)
    broker.create_topic(sink)
    client.produce(source, ["one", "two", "three"])
    client.transform(source, sink, group=topic, transactional_id=topic, timeout_ms=MINUTE_MS, count=3)

    assert client.read_committed(sink, 3) == ["ONE", "TWO", "THREE"]
    wait_until(lambda: offset_of(broker, topic, source) == 3)
    found = [shard.shard.ledger.get(topic) for shard in broker.node.broker.transactions.topic.loaded()]
    assert [record.client_version for record in found if record is not None] == [EPOCH_PER_TRANSACTION]
