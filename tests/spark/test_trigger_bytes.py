"""The end of micro-batches with a limit in bytes, without Spark."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from pyspark.sql.streaming.datasource import ReadMaxBytes

from qanat.connection.batch_sizes import SizedBatch
from qanat.connection.cluster import Cluster, parse_bootstrap
from qanat.connection.producer import Producer
from qanat.model.ids import TopicPartition
from qanat.spark.offsets import OffsetRange, Offsets, from_json, to_json
from qanat.spark.options.options import source_options
from qanat.spark.reads.stream_reader import StreamReader
from qanat.spark.reads.trigger_bytes import cut_by_bytes
from qanat.testing import EmbeddedBroker
from qanat.wire.records import Record, encode_batch

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)
Sizes = dict[TopicPartition, list[int]]


def cut(start: Offsets, sizes: Sizes, max_bytes: int, seen_at_once: int = 3) -> dict[TopicPartition, int]:
    """In logs whose batches have one record each, of these sizes."""

    async def look(wanted: OffsetRange, share: int) -> list[SizedBatch]:
        last = min(wanted.end, wanted.start + seen_at_once)
        return [SizedBatch(offset + 1, sizes[wanted.at][offset]) for offset in range(wanted.start, last)]

    end = {at: len(every) for at, every in sizes.items()}
    return asyncio.run(cut_by_bytes(start, end, max_bytes, look))


def test_what_fits_is_taken_whole() -> None:
    assert cut({FIRST: 0, SECOND: 0}, {FIRST: [10] * 5, SECOND: [10] * 5}, 100) == {FIRST: 5, SECOND: 5}


def test_partitions_share_the_bytes_and_one_that_needs_less_leaves_its_share_to_the_others() -> None:
    sizes = {FIRST: [10] * 100, SECOND: [10] * 2}
    assert cut({FIRST: 0, SECOND: 0}, {**sizes, SECOND: [10] * 100}, 100) == {FIRST: 5, SECOND: 5}
    assert cut({FIRST: 0, SECOND: 0}, sizes, 100) == {FIRST: 8, SECOND: 2}


def test_a_batch_that_does_not_fit_any_more_waits_and_smaller_ones_of_others_are_taken() -> None:
    assert cut({FIRST: 0, SECOND: 0}, {FIRST: [10, 90], SECOND: [10] * 20}, 60) == {FIRST: 1, SECOND: 5}


def test_one_batch_is_taken_however_large_it_is_and_each_partition_has_its_turn() -> None:
    sizes = {FIRST: [500] * 3, SECOND: [500] * 4}
    position: dict[TopicPartition, int] = {FIRST: 0, SECOND: 0}
    taken = []
    while position != {FIRST: 3, SECOND: 4}:
        after = cut(position, sizes, 100)
        taken.append([at.partition for at in after if after[at] > position[at]])
        position = after
    assert taken == [[1], [0], [1], [0], [1], [0], [1]]


def test_offsets_without_anything_cost_nothing() -> None:
    assert cut({FIRST: 0}, {FIRST: [0, 0, 100, 0]}, 50) == {FIRST: 3}, "but for the one that makes it go on"
    assert cut({FIRST: 0}, {FIRST: [0, 40, 0, 40]}, 50) == {FIRST: 3}


def batches(count: int, value: bytes, per_batch: int = 1) -> Iterator[bytearray]:
    for _ in range(count):
        yield encode_batch([Record(number, 0, None, value) for number in range(per_batch)])


async def fill(broker: EmbeddedBroker, every: dict[int, list[bytearray]]) -> dict[TopicPartition, dict[int, int]]:
    """Write batches, each on its own; their sizes by the offset that follows."""
    sizes: dict[TopicPartition, dict[int, int]] = {}
    async with Cluster(parse_bootstrap(broker.bootstrap_servers), "writer", 30.0) as cluster:
        producer = await Producer.idempotent(cluster, cluster.deadline())
        for number, some in every.items():
            ends = sizes.setdefault(TopicPartition("t", number), {})
            for batch in some:
                size = len(batch)
                count = int.from_bytes(batch[57:61])
                base = (await producer.send("t", {number: batch}, cluster.deadline()))[number]
                ends[base + count] = size
    return sizes


@pytest.mark.parametrize("max_bytes", [64 * 1024, 1024 * 1024])
def test_micro_batches_never_have_more_bytes_than_they_may_whatever_the_mean_is(max_bytes: int) -> None:
    small, large = list(batches(40, b"x" * 10, per_batch=200)), list(batches(30, b"y" * 100_000))
    with EmbeddedBroker() as broker:
        broker.create_topic("t", partitions=2)
        sizes = asyncio.run(fill(broker, {0: [*small, *large], 1: [*batches(30, b"z" * 1000)]}))
        given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "t", "startingOffsets": "earliest"}
        options = source_options({**given, "maxBytesPerTrigger": str(max_bytes)}, is_stream=True)
        reader = StreamReader(options, None)
        position = {FIRST: 0, SECOND: 0}
        end = {at: max(ends) for at, ends in sizes.items()}
        taken = []
        while position != end:
            after = from_json(reader.latestOffset(to_json(position), ReadMaxBytes(max_bytes)), "answer")
            some = [
                size
                for at, ends in sizes.items()
                for next_offset, size in ends.items()
                if position[at] < next_offset <= after[at]
            ]
            assert some, "it goes on"
            assert sum(some) <= max_bytes or len(some) == 1, f"{sum(some)} bytes in {len(some)} batches"
            assert all(after[at] in {0, *sizes[at]} for at in after), "batches stay whole"
            taken.append(sum(some))
            position = dict(after)
        reader.stop()

    total = sum(sum(ends.values()) for ends in sizes.values())
    assert sum(taken) == total
    if max_bytes > 500_000:
        assert len(taken) <= 2 * -(-total // max_bytes), "and they are not much smaller than they may be"
