"""The end of micro-batches with a limit in bytes, without Spark."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from pyspark.sql.streaming.datasource import ReadMaxBytes

from qanat.connection.batch_producer import BatchProducer
from qanat.connection.batch_sizes import SizedBatch
from qanat.connection.cluster import Cluster, parse_bootstrap
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


def test_a_batch_of_many_records_is_cut_to_what_fits() -> None:
    async def look(wanted: OffsetRange, share: int) -> list[SizedBatch]:
        return [SizedBatch(100, 1000)]

    def end_of(start: int, max_bytes: int) -> int:
        # As long as the whole batch is ahead, it counts as a thousand bytes.
        return asyncio.run(cut_by_bytes({FIRST: start}, {FIRST: 100}, max_bytes, look))[FIRST]

    assert [end_of(0, 255), end_of(0, 1000), end_of(0, 5)] == [25, 100, 1]


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
        producer = await BatchProducer.idempotent(cluster, cluster.deadline())
        for number, some in every.items():
            ends = sizes.setdefault(TopicPartition("t", number), {})
            for batch in some:
                size = len(batch)
                count = int.from_bytes(batch[57:61])
                base = (await producer.send("t", {number: batch}, cluster.deadline()))[number]
                ends[base + count] = size
    return sizes


@pytest.mark.parametrize("max_bytes", [64 * 1024, 250_000, 1024 * 1024])
def test_micro_batches_have_as_many_bytes_as_they_may_and_no_more(max_bytes: int) -> None:
    """Within ten per cent, with batches that are much smaller, and much larger, than the limit."""
    small, large = list(batches(40, b"x" * 10, per_batch=200)), list(batches(3, b"y" * 1000, per_batch=900))
    with EmbeddedBroker() as broker:
        broker.create_topic("t", partitions=2)
        sizes = asyncio.run(fill(broker, {0: [*small, *large], 1: [*batches(300, b"z" * 1000)]}))
        given = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "t", "startingOffsets": "earliest"}
        options = source_options({**given, "maxBytesPerTrigger": str(max_bytes)}, is_stream=True)
        reader = StreamReader(options, None)
        position = {FIRST: 0, SECOND: 0}
        end = {at: max(ends) for at, ends in sizes.items()}
        taken = []
        while position != end:
            after = from_json(reader.latestOffset(to_json(position), ReadMaxBytes(max_bytes)), "answer")
            assert all(after[at] > position[at] for at in end if position[at] < end[at]), "every partition advances"
            taken.append(sum(size_between(ends, position[at], after[at]) for at, ends in sizes.items()))
            position = dict(after)
        reader.stop()

    assert sum(taken) == pytest.approx(sum(sum(ends.values()) for ends in sizes.values()))
    assert max(taken) <= max_bytes
    assert min(taken[:-1], default=max_bytes) >= 0.9 * max_bytes


def size_between(ends: dict[int, int], start: int, end: int) -> float:
    """The bytes of records, each with its part of its batch."""
    total, base = 0.0, 0
    for next_offset, size in sorted(ends.items()):
        part = max(0, min(next_offset, end) - max(base, start)) / (next_offset - base)
        total += size * part
        base = next_offset
    return total
