"""The buffer between I/O and user by seeds: what is handed out has no gap, what is finished was handed out."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

import pytest

from qanat.client.consumer.assigned_partition import AssignedPartition
from qanat.client.consumer.fetcher import chunks_of
from qanat.client.consumer.record_buffer import RecordBuffer
from qanat.connection.consuming.partition_cursor import Reset
from qanat.model.ids import TopicPartition
from qanat.wire.kafka.messages.fetch import PartitionData
from qanat.wire.records import Record, encode_batch

PARTITIONS = [TopicPartition("t", number) for number in range(3)]


def batch(first: int, count: int) -> bytes:
    records = [Record(offset, 1, None, b"%d" % offset) for offset in range(first, first + count)]
    return bytes(encode_batch(records, base_offset=first))


class World:
    """A buffer, the I/O that fills it, and the user who takes from it."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.buffer = RecordBuffer(1 << 20, lambda: None)
        self.buffer.add([AssignedPartition(at, Reset.EARLIEST) for at in PARTITIONS])
        self.fetched = dict.fromkeys(PARTITIONS, 0)
        self.expected = dict.fromkeys(PARTITIONS, 0)
        self.unfinished: dict[TopicPartition, list[int]] = {at: [] for at in PARTITIONS}
        for one in self.buffer.partitions.values():
            self.buffer.seek(one, 0)

    def push(self) -> None:
        at = self.chance.choice(PARTITIONS)
        one = self.buffer.partitions[at]
        data = b"".join(batch(self.fetched[at] + 10 * index, 10) for index in range(self.chance.randint(1, 3)))
        chunks, next_offset, _ = chunks_of(PartitionData(records=data), one.token, self.fetched[at])
        self.buffer.push(one, chunks)
        self.fetched[at] = next_offset

    def given(self, record: Record) -> None:
        at = TopicPartition(record.topic, record.partition)  # type: ignore[attr-defined]
        assert record.offset == self.expected[at]
        self.expected[at] += 1
        self.unfinished[at].append(record.offset)

    def finish_all(self) -> None:
        self.unfinished = {at: [] for at in PARTITIONS}

    def poll(self) -> None:
        records = self.buffer.take(self.chance.randint(1, 40))
        self.finish_all()
        for record in records:
            self.given(record)

    def walk(self) -> None:
        """Some records one by one, and an end in the middle."""
        records = self.buffer.take(20, is_one_by_one=True)
        self.finish_all()
        for index, record in enumerate(records[: self.chance.randint(0, 20)], 1):
            self.buffer.hand.given = index
            self.finish_all()
            self.given(record)
            self.check()
            if self.chance.random() < 0.9:
                self.buffer.hand.done = index
                self.finish_all()
            else:
                return

    def seek(self) -> None:
        at = self.chance.choice(PARTITIONS)
        offset = self.chance.randint(0, self.fetched[at])
        self.buffer.seek(self.buffer.partitions[at], offset)
        self.fetched[at] = self.expected[at] = offset
        self.unfinished[at] = []

    def pause(self) -> None:
        one = self.buffer.partitions[self.chance.choice(PARTITIONS)]
        self.buffer.pause(one, not one.is_paused)

    def check(self) -> None:
        for at, committed in self.buffer.finished_offsets().items():
            first_unfinished = min(self.unfinished[at], default=self.expected[at])
            assert committed.offset <= first_unfinished
            assert self.buffer.position(at) == self.expected[at]


@pytest.mark.parametrize("seed", range(150))
def test_no_gap_no_double_and_nothing_unfinished_is_committable(seed: int) -> None:
    world = World(seed)
    acts = [world.push, world.push, world.poll, world.walk, world.seek, world.pause]
    for _ in range(80):
        world.chance.choice(acts)()
        world.check()
    for one in world.buffer.partitions.values():
        world.buffer.pause(one, is_paused=False)
    while world.buffer.has_ready:
        world.poll()

    assert world.expected == world.fetched
    assert world.buffer.buffered_bytes == 0


def test_a_leaving_partition_hands_out_nothing_and_may_still_be_finished() -> None:
    world = World(0)
    at = PARTITIONS[0]
    one = world.buffer.partitions[at]
    chunks, _, _ = chunks_of(PartitionData(records=batch(0, 10)), one.token, 0)
    world.buffer.push(one, chunks)
    assert len(world.buffer.take(4)) == 4

    world.buffer.leave([at])
    assert world.buffer.hand.holds([at])
    assert world.buffer.take(10) == []
    assert not world.buffer.hand.holds([at])
    assert world.buffer.finished_offsets([at])[at].offset == 4
    world.buffer.remove([at])
    assert world.buffer.finished_offsets([at]) == {}


class LockAfter:
    """A lock; something of the user's thread happens right before it is first taken."""

    def __init__(self, lock: threading.Lock, event: Callable[[], object]) -> None:
        self._lock = lock
        self._events = [event]

    def __enter__(self) -> None:
        if self._events:
            self._events.pop()()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_records_that_are_taken_while_a_commit_looks_are_not_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit of the I/O thread counts what is finished of one hand, and the user's thread takes the next."""
    world = World(0)
    (at, *_) = PARTITIONS
    one = world.buffer.partitions[at]
    chunks, _, _ = chunks_of(PartitionData(records=batch(0, 10)), one.token, 0)
    world.buffer.push(one, chunks)
    world.buffer.take(5, is_one_by_one=True)
    world.buffer.hand.given = world.buffer.hand.done = 5
    real = world.buffer._lock

    def take_more() -> None:
        monkeypatch.setattr(world.buffer, "_lock", real)
        world.buffer.take(5, is_one_by_one=True)

    monkeypatch.setattr(world.buffer, "_lock", LockAfter(real, take_more))

    assert world.buffer.finished_offsets()[at].offset == 5


def test_a_chunk_of_an_older_token_is_dropped() -> None:
    world = World(0)
    one = world.buffer.partitions[PARTITIONS[0]]
    chunks, _, _ = chunks_of(PartitionData(records=batch(0, 10)), one.token, 0)
    world.buffer.seek(one, 5)
    world.buffer.push(one, chunks)

    assert world.buffer.take(10) == []


def test_a_fetch_that_begins_within_a_batch_leaves_out_what_is_before() -> None:
    world = World(0)
    one = world.buffer.partitions[PARTITIONS[0]]
    world.buffer.seek(one, 7)
    chunks, next_offset, _ = chunks_of(PartitionData(records=batch(0, 10)), one.token, 7)
    world.buffer.push(one, chunks)

    assert next_offset == 10
    assert [record.offset for record in world.buffer.take(10)] == [7, 8, 9]
