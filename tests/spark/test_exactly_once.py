"""A micro-batch is written once, even if it is retried. Without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest
from tests.spark.test_batch_sender import _committed

from qanat.connection.committed import committed_offsets
from qanat.connection.faults import RefusedError
from qanat.model.ids import TopicPartition
from qanat.spark.options.options import Access
from qanat.spark.sink.batch_sender import Sender
from qanat.spark.sink.exactly_once import commit_once
from qanat.spark.sink.outgoing_columns import EncodedBatch
from qanat.testing import EmbeddedBroker
from qanat.wire.records import Record, encode_batch

ID, GROUP, TOPIC = "some-id", "some-group", "wide"


def micro_batch(rows: int = 2, topic: str = TOPIC) -> list[EncodedBatch]:
    records = [Record(number, 0, b"", b"%d" % number) for number in range(rows)]
    return [EncodedBatch(TopicPartition(topic, 1), encode_batch(records), rows)]


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        running.create_topic(TOPIC, partitions=3)
        yield running


def commit(broker: EmbeddedBroker, batch_id: int, batches: list[EncodedBatch] | None = None) -> bool:
    access = Access(broker.bootstrap_servers)
    return commit_once(access, ID, GROUP, batch_id, micro_batch() if batches is None else batches)


def committed(broker: EmbeddedBroker) -> int:
    return _committed(broker.bootstrap_servers, TOPIC)


def test_the_same_micro_batch_is_written_once_however_often_it_is_committed(broker: EmbeddedBroker) -> None:
    assert commit(broker, 0), "the very first number counts, too"
    assert not commit(broker, 0)
    assert not commit(broker, 0)

    assert committed(broker) == 2


def test_every_next_micro_batch_is_written_and_none_before_it_any_more(broker: EmbeddedBroker) -> None:
    assert [commit(broker, number) for number in (0, 1, 3)] == [True] * 3
    assert [commit(broker, number) for number in (3, 2, 1, 0)] == [False] * 4

    assert committed(broker) == 6


def test_queries_of_different_groups_do_not_hide_each_others_batches(broker: EmbeddedBroker) -> None:
    access = Access(broker.bootstrap_servers)

    assert commit_once(access, ID, GROUP, 5, micro_batch())
    assert commit_once(access, "another-id", "another-group", 0, micro_batch())
    assert committed(broker) == 4


def test_a_micro_batch_without_rows_leaves_no_number_behind(broker: EmbeddedBroker) -> None:
    assert not commit(broker, 7, [])
    assert commit(broker, 0)


def test_a_micro_batch_that_breaks_in_the_middle_leaves_nothing_and_is_written_by_the_next_try(
    broker: EmbeddedBroker,
) -> None:
    numbers = count()

    def breaking() -> Iterator[EncodedBatch]:
        yield from micro_batch()
        raise OSError(f"attempt {next(numbers)}")

    access = Access(broker.bootstrap_servers)
    with pytest.raises(OSError, match="attempt 0"):
        commit_once(access, ID, GROUP, 0, breaking())
    assert committed(broker) == 0

    assert commit(broker, 0)
    assert committed(broker) == 2


def test_a_micro_batch_that_breaks_after_rows_were_sent_is_aborted_at_once(broker: EmbeddedBroker) -> None:
    def breaking() -> Iterator[EncodedBatch]:
        for _ in range(3):
            yield from micro_batch()
        raise OSError("no more rows")

    access = Access(broker.bootstrap_servers)
    with pytest.raises(OSError, match="no more rows"):
        commit_once(access, ID, GROUP, 0, breaking())
    assert broker.records(TOPIC), "some rows were sent"
    assert commit_once(access, "another-id", "another-group", 0, micro_batch())

    assert committed(broker) == 2, "readers see the other query's rows, and do not wait for an open transaction"


def test_a_micro_batch_is_known_even_if_others_began_with_other_topics(broker: EmbeddedBroker) -> None:
    broker.create_topic("other", partitions=2)
    assert commit(broker, 0, micro_batch(topic="other"))
    assert commit(broker, 1)
    assert not commit(broker, 1)
    assert commit(broker, 2, micro_batch(topic="other"))
    assert not commit(broker, 2)

    assert committed(broker) == 2


def test_the_number_is_an_offset_of_the_partition_that_every_topic_has(broker: EmbeddedBroker) -> None:
    assert commit(broker, 7)

    with Sender(Access(broker.bootstrap_servers)) as sender:
        found = sender.run(committed_offsets(sender.cluster, GROUP, sender.cluster.deadline()))
    assert found == {TopicPartition(TOPIC, 0): 7}


def test_nothing_is_written_while_it_is_undecided_whether_it_is_written_already(broker: EmbeddedBroker) -> None:
    assert commit(broker, 3)
    with Sender(Access(broker.bootstrap_servers)) as earlier:
        cluster = earlier.cluster
        producer = earlier.init_transactional("earlier-id", 60_000)
        earlier.run(producer.commit_offsets(GROUP, {TopicPartition(TOPIC, 0): 4}, cluster.deadline()))
        with pytest.raises(RefusedError, match=GROUP):
            commit_once(Access(broker.bootstrap_servers, timeout_s=1.0), ID, GROUP, 4, micro_batch())
        earlier.run(producer.end(cluster.deadline(), is_committed=True))

    assert not commit(broker, 4)
    assert committed(broker) == 2
