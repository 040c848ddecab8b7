"""A micro-batch is written once, even if it is retried. Without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest
from tests.spark.test_batch_sender import _committed

from qanat.model.ids import TopicPartition
from qanat.spark.options.options import Access
from qanat.spark.sink.exactly_once import commit_once
from qanat.spark.sink.outgoing_columns import EncodedBatch
from qanat.testing import EmbeddedBroker
from qanat.wire.records import Record, encode_batch

ID, GROUP, TOPIC = "some-id", "some-group", "wide"


def micro_batch(rows: int = 2) -> list[EncodedBatch]:
    records = [Record(number, 0, b"", b"%d" % number) for number in range(rows)]
    return [EncodedBatch(TopicPartition(TOPIC, 1), encode_batch(records), rows)]


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
