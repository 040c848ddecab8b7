"""Acquired records of a fetch: whole batches, parts of them, compacted ones, and those whose lock is lost meanwhile."""

from __future__ import annotations

from collections.abc import Sequence

from qanat.client.queue.chunks import Chunk, acquired_batches
from qanat.client.queue.locks import Lock, PartitionLocks
from qanat.client.records import Record as Given
from qanat.connection.share_sessions import Verdicts
from qanat.wire.compression import Codec
from qanat.wire.kafka.messages.share_fetch import AcquiredRecords, PartitionData
from qanat.wire.records import BatchFields, Record, encode_records_batch

NOW = 5.0


class Broker:
    """A session that hears no verdicts."""

    def acknowledge(self, locks: PartitionLocks, said: Verdicts) -> None: ...


def batch(offsets: Sequence[int], *, end: int | None = None, codec: Codec = Codec.NONE) -> bytes:
    records = [Record(offset, 1000 + offset, None, b"%d" % offset) for offset in offsets]
    last_delta = (offsets[-1] if end is None else end - 1) - offsets[0]
    return bytes(encode_records_batch(records, BatchFields(base_offset=offsets[0]), codec, last_delta))


def answer(*batches: bytes, acquired: Sequence[tuple[int, int, int]]) -> PartitionData:
    ranges = [AcquiredRecords(first, last, count) for first, last, count in acquired]
    return PartitionData(records=b"".join(batches), acquired_records=ranges)


def held(data: PartitionData) -> tuple[Chunk, PartitionLocks, list[int]]:
    """The chunk as a session makes it, its locks, and the gaps."""
    locks, lock = PartitionLocks((b"", 3), "jobs", Broker()), Lock(0.0, 30.0, 1)
    batches, gaps = acquired_batches(data)
    for one in batches:
        locks.hold(one.offsets, lock, one.counts)
    return Chunk(locks, lock, [one for one in batches if one.offsets]), locks, gaps


def taken(chunk: Chunk, most: int = 100) -> list[tuple[int, int]]:
    """Offsets and delivery counts of all that is left."""
    found = []
    while len(chunk):
        for record in chunk.take(most, NOW):
            assert (record.topic, record.partition) == ("jobs", 3)
            assert (record.value, record.timestamp_ms) == (b"%d" % record.offset, 1000 + record.offset)
            found.append((record.offset, record.delivery_count))
    return found


def given(offset: int, delivery_count: int) -> Given[None, None]:
    return Given("jobs", 3, offset, 0, None, None, delivery_count=delivery_count)


def test_whole_batches_are_taken_in_any_portions() -> None:
    data = answer(batch(range(10)), batch(range(10, 14), codec=Codec.ZSTD), acquired=[(0, 13, 1)])
    for most in (1, 3, 100):
        chunk, locks, gaps = held(data)
        assert (len(chunk), gaps, len(locks.held)) == (14, [], 14)
        assert taken(chunk, most) == [(offset, 1) for offset in range(14)]


def test_parts_of_a_batch_have_their_own_delivery_counts() -> None:
    chunk, locks, gaps = held(answer(batch(range(10)), acquired=[(2, 3, 1), (6, 8, 4)]))
    assert gaps == []
    assert taken(chunk, 2) == [(2, 1), (3, 1), (6, 4), (7, 4), (8, 4)]
    assert locks.holds(given(6, 4))
    assert not locks.holds(given(6, 1))
    assert not locks.holds(given(4, 1))


def test_acquired_offsets_without_a_record_are_gaps() -> None:
    chunk, locks, gaps = held(answer(batch([0, 1, 5]), batch([6, 7], end=10), acquired=[(0, 11, 2)]))
    assert gaps == [2, 3, 4, 8, 9, 10, 11]
    assert sorted(locks.held) == [0, 1, 5, 6, 7]
    assert taken(chunk) == [(0, 2), (1, 2), (5, 2), (6, 2), (7, 2)]


def test_an_answer_without_records_has_gaps_only() -> None:
    chunk, _, gaps = held(answer(acquired=[(4, 6, 1)]))
    assert (len(chunk), gaps) == (0, [4, 5, 6])


def test_only_what_is_handed_out_counts_as_handed_out() -> None:
    data = answer(batch(range(3)), batch(range(3, 6)), batch(range(6, 9)), acquired=[(0, 8, 1)])
    chunk, locks, _ = held(data)
    assert [record.offset for record in chunk.take(4, 5.0)] == [0, 1, 2, 3]
    assert [locks.held[offset].handed_at for offset in range(9)] == [5.0] * 4 + [None] * 5
    assert [record.offset for record in chunk.take(1, 6.0)] == [4]
    assert [record.offset for record in chunk.take(10, 7.0)] == [5, 6, 7, 8]
    assert [locks.held[offset].handed_at for offset in range(9)] == [5.0] * 4 + [6.0] + [7.0] * 4
    assert {locks.held[offset].until for offset in range(9)} == {30.0}


def test_what_is_lost_in_the_buffer_is_not_handed_out() -> None:
    chunk, locks, _ = held(answer(batch(range(6)), acquired=[(0, 5, 1)]))
    assert [record.offset for record in chunk.take(2, NOW)] == [0, 1]
    assert locks.take(3) is not None
    assert taken(chunk) == [(2, 1), (4, 1), (5, 1)]


def test_records_that_came_again_are_handed_out_with_their_new_lock_only() -> None:
    data = answer(batch(range(4)), acquired=[(0, 3, 1)])
    former, locks, _ = held(data)
    later, (again, *_) = Lock(40.0, 70.0, 1), acquired_batches(answer(batch(range(4)), acquired=[(1, 2, 2)]))[0]
    assert locks.held_of(again.offsets) == [1, 2]
    assert all(locks.take(offset) is not None for offset in locks.held_of(again.offsets))
    assert locks.held_of(again.offsets) == []
    locks.hold(again.offsets, later, again.counts)
    assert taken(former) == [(0, 1), (3, 1)]
    assert taken(Chunk(locks, later, [again])) == [(1, 2), (2, 2)]


def test_a_delivery_that_the_broker_did_not_count_is_told_from_the_next_one() -> None:
    data = answer(batch(range(4)), acquired=[(0, 3, 1)])
    chunk, locks, _ = held(data)
    first, second, *_ = chunk.take(4, NOW)
    assert all(locks.lose(offset) for offset in (0, 1))

    (again, *_), later = acquired_batches(answer(batch(range(8)), acquired=[(0, 1, 1), (4, 7, 1)]))[0], Lock(40, 70, 1)
    locks.hold(again.offsets, later, again.counts)
    assert not locks.holds(first), "it waits in the buffer, and the user has an earlier delivery"
    anew, other, *rest = Chunk(locks, later, [again]).take(10, NOW)
    assert (anew.offset, anew.delivery_count) == (first.offset, first.delivery_count)
    assert [locks.holds(record) for record in (first, second, anew, other, *rest)] == [False, False] + [True] * 6
    assert sorted(locks.given) == [0, 1], "only what came again is remembered"
    assert locks.take(0) is not None
    assert sorted(locks.given) == [1]
