"""Offsets in transactions while members come and go: what was kept is committed, what has gone is not."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from tests.client.consumer.topics import WAIT_S, new_topic, numbered, wait_until, write
from tests.client.consumer.transacting import copy_while_members_come_and_go, ends, member, visible

from qanat.client import Consumer, FencedError, Producer, Record, TopicPartition, TransactionError
from qanat.model.error_codes import ErrorCode
from qanat.testing import EmbeddedBroker

PROTOCOLS = pytest.mark.parametrize("protocol", ["consumer", "classic", "cooperative"])
KEPT = pytest.mark.parametrize("protocol", ["consumer", "cooperative"])
"""Protocols in which a member keeps partitions through a rebalance."""


@pytest.fixture(scope="module")
def quick_broker() -> Iterator[EmbeddedBroker]:
    """Members hear of a change soon."""
    with EmbeddedBroker(settings={"group.consumer.heartbeat.interval.ms": 100}) as broker:
        yield broker


@KEPT
def test_a_refused_epoch_is_waited_for_and_the_offsets_are_committed(
    quick_broker: EmbeddedBroker, protocol: str
) -> None:
    topic, target = new_topic(quick_broker), new_topic(quick_broker)
    write(quick_broker.bootstrap_servers, topic, numbered(10))
    with (
        member(quick_broker.bootstrap_servers, topic, protocol) as consumer,
        Producer(quick_broker.bootstrap_servers, transactional_id=f"t-{topic}") as producer,
    ):
        records = consumer.poll(timeout_s=30)
        before = consumer.group_metadata
        # As if the coordinator had moved the member on, and its answer were still on the way.
        refusal = quick_broker.fail("TxnOffsetCommit", ErrorCode.ILLEGAL_GENERATION)
        others: list[Consumer] = []

        def join_once_refused() -> None:
            wait_until(lambda: refusal.is_over)
            others.append(member(quick_broker.bootstrap_servers, topic, protocol).start())

        joining = threading.Thread(target=join_once_refused, daemon=True)
        joining.start()
        with producer.transaction() as transaction:
            producer.send(target, b"sum")
            transaction.commit_offsets(consumer, ends(records))
        joining.join(WAIT_S)
        assert consumer.group_metadata.generation_or_epoch > before.generation_or_epoch
        assert consumer.committed(TopicPartition(topic, 0)) == {TopicPartition(topic, 0): 10}
        for one in others:
            one.close()
    assert visible(quick_broker.bootstrap_servers, target, 1) == [b"sum"]


@KEPT
def test_no_transaction_fails_while_other_members_come_and_go(quick_broker: EmbeddedBroker, protocol: str) -> None:
    topic, target, address = new_topic(quick_broker), new_topic(quick_broker), quick_broker.bootstrap_servers
    write(address, topic, numbered(200))
    copy_while_members_come_and_go(address, topic, target, protocol, 200)
    assert visible(address, target, 200) == numbered(200)


@PROTOCOLS
def test_records_from_before_a_loss_cannot_be_committed_though_the_partition_is_back(
    quick_broker: EmbeddedBroker, protocol: str
) -> None:
    topic, target = new_topic(quick_broker), new_topic(quick_broker)
    write(quick_broker.bootstrap_servers, topic, numbered(10))
    lost: list[object] = []
    with (
        member(quick_broker.bootstrap_servers, topic, protocol, on_lost=lost.append) as consumer,
        Producer(quick_broker.bootstrap_servers, transactional_id=f"t-{topic}") as producer,
    ):
        records = consumer.poll(timeout_s=30)
        claim = consumer.claim(ends(records))
        quick_broker.expire_session(f"g-{topic}", consumer.group_metadata.member_id)
        wait_until(lambda: bool(lost and consumer.assignment), lambda: consumer.poll(0, timeout_s=0.05))
        for source in (consumer, claim):
            with pytest.raises(TransactionError, match="has moved on"), producer.transaction() as transaction:
                transaction.commit_offsets(source, ends(records))
        again = consumer.poll(timeout_s=30)
        assert [record.value for record in again] == [record.value for record in records]
        with producer.transaction() as transaction:
            producer.send(target, b"in time")
            transaction.commit_offsets(consumer, ends(again))
        assert consumer.committed() == {TopicPartition(topic, 0): 10}
    assert visible(quick_broker.bootstrap_servers, target, 1) == [b"in time"]


def test_a_partition_of_another_member_cannot_be_committed_in_the_current_epoch(quick_broker: EmbeddedBroker) -> None:
    topic = new_topic(quick_broker, 2)
    write(quick_broker.bootstrap_servers, topic, numbered(100))
    with (
        member(quick_broker.bootstrap_servers, topic) as one,
        Producer(quick_broker.bootstrap_servers, transactional_id=f"t-{topic}") as producer,
    ):
        records: list[Record[bytes | None, bytes | None]] = []
        wait_until(lambda: len(records) == 100, lambda: records.extend(one.poll(timeout_s=0.05)))
        with member(quick_broker.bootstrap_servers, topic) as two:

            def poll_both() -> None:
                one.poll(timeout_s=0.05)
                two.poll(timeout_s=0.05)

            wait_until(lambda: len(one.assignment) == len(two.assignment) == 1, poll_both)
            (gone,) = two.assignment
            with (
                pytest.raises(TransactionError, match=f"{gone} may belong to another member"),
                producer.transaction() as late,
            ):
                late.commit_offsets(one, ends(records))
            with producer.transaction() as transaction:
                transaction.commit_offsets(one, {at: end for at, end in ends(records).items() if at != gone})


def test_metadata_of_a_moment_is_refused_once_the_group_has_moved_on(quick_broker: EmbeddedBroker) -> None:
    topic = new_topic(quick_broker)
    write(quick_broker.bootstrap_servers, topic, numbered(10))
    with (
        member(quick_broker.bootstrap_servers, topic) as consumer,
        Producer(quick_broker.bootstrap_servers, transactional_id=f"t-{topic}") as producer,
    ):
        records = consumer.poll(timeout_s=30)
        before = consumer.group_metadata
        with member(quick_broker.bootstrap_servers, topic):
            wait_until(lambda: consumer.group_metadata != before)
            with pytest.raises(TransactionError, match="ILLEGAL_GENERATION"), producer.transaction() as transaction:
                transaction.commit_offsets(before, ends(records))


def test_a_replaced_static_member_is_fenced(quick_broker: EmbeddedBroker) -> None:
    topic = new_topic(quick_broker)
    write(quick_broker.bootstrap_servers, topic, numbered(10))
    with (
        member(quick_broker.bootstrap_servers, topic, "classic", group_instance_id="a") as older,
        Producer(quick_broker.bootstrap_servers, transactional_id=f"t-{topic}") as producer,
    ):
        records = older.poll(timeout_s=30)
        quick_broker.fail("TxnOffsetCommit", ErrorCode.FENCED_INSTANCE_ID)
        with pytest.raises(FencedError, match="instance id a"), producer.transaction() as transaction:
            transaction.commit_offsets(older, ends(records))


@pytest.mark.parametrize("reset", ["earliest", "latest"])
def test_a_rewind_reads_again_what_an_aborted_transaction_read(quick_broker: EmbeddedBroker, reset: str) -> None:
    topic, target = new_topic(quick_broker), new_topic(quick_broker)
    with (
        member(quick_broker.bootstrap_servers, topic, auto_offset_reset=reset) as consumer,
        Producer(quick_broker.bootstrap_servers, transactional_id=f"t-{topic}") as producer,
    ):
        at = TopicPartition(topic, 0)
        wait_until(
            lambda: at in consumer.assignment and consumer.position(at) == 0, lambda: consumer.poll(timeout_s=0.05)
        )
        write(quick_broker.bootstrap_servers, topic, numbered(30))
        seen: list[bytes | None] = []
        failures = [ZeroDivisionError(), None, ZeroDivisionError(), ZeroDivisionError(), None, None]
        for failure in failures:
            records = consumer.poll(10, timeout_s=30)
            try:
                with producer.transaction() as transaction:
                    for record in records:
                        producer.send(target, record.value)
                    transaction.commit_offsets(consumer, ends(records))
                    if failure is not None:
                        raise failure
                seen += [record.value for record in records]
            except ZeroDivisionError:
                consumer.rewind()
    assert seen == numbered(30)
    assert visible(quick_broker.bootstrap_servers, target, 30) == numbered(30)
