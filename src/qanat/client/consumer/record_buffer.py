"""Records between the I/O loop and the user: fetched ahead, handed out in whole batches, finished later.

The I/O loop pushes chunks; one user thread or loop takes them. A lock guards the moment of the hand-over only:
decoding happens outside of it.

Rule 1: nothing of a revoked, paused or sought partition is handed out after that call has returned.
Rule 2: what was handed out is unfinished until the user asks for more; `finished_offsets` never names more.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable
from typing import Any

from qanat.client.consumer.assigned_partition import AssignedPartition, Chunk
from qanat.connection.consuming.group_commits import CommittedOffset
from qanat.model.errors import CorruptBatchError
from qanat.model.ids import TopicPartition


class Span:
    """Neighbouring records of one partition in a hand, and where they end."""

    __slots__ = ("count", "epoch", "next_offset", "partition", "token")

    def __init__(self, partition: AssignedPartition, token: int, count: int, next_offset: int, epoch: int) -> None:
        self.partition = partition
        self.token = token
        self.count = count
        self.next_offset = next_offset
        self.epoch = epoch


class Hand:
    """The records that the user has now: `given` of them were handed out, `done` are finished."""

    __slots__ = ("done", "given", "records", "spans")

    def __init__(self) -> None:
        self.records: list[Any] = []
        self.spans: list[Span] = []
        self.given = 0
        self.done = 0

    def reached(self, count: int) -> dict[TopicPartition, tuple[AssignedPartition, int, int]]:
        """Partition, next offset and leader epoch after the first `count` records."""
        found: dict[TopicPartition, tuple[AssignedPartition, int, int]] = {}
        begin = 0
        for span in self.spans:
            end = begin + span.count
            if span.token == span.partition.token or span.partition.is_leaving:
                if count >= end:
                    found[span.partition.at] = span.partition, span.next_offset, span.epoch
                elif count > begin:
                    last = self.records[count - 1]
                    found[span.partition.at] = span.partition, last.offset + 1, last.leader_epoch
            begin = end
        return found

    def holds(self, partitions: Collection[TopicPartition]) -> bool:
        """Whether unfinished records of these partitions are with the user."""
        begin = 0
        for span in self.spans:
            begin += span.count
            if span.count and self.done < begin and span.partition.at in partitions:
                return begin - span.count < self.given
        return False


class RecordBuffer:
    """All assigned partitions, and the hand."""

    def __init__(self, limit_bytes: int, on_room: Callable[[], None]) -> None:
        self.limit_bytes = limit_bytes
        self.buffered_bytes = 0
        self.partitions: dict[TopicPartition, AssignedPartition] = {}
        self._given_before: dict[TopicPartition, int] = {}
        """How far partitions were handed out that have gone; some came back since."""
        self.hand = Hand()
        self.version = 0
        """Changes whenever records in hand may no longer count."""
        self.on_finished: Callable[[], None] | None = None
        """Called once the user asks for more; for a revocation that waits."""
        self.waker: Callable[[], None] | None = None
        """Wakes the user who waits for records."""
        self.is_waiting_for_room = False
        self._on_room = on_room
        self._ready: deque[AssignedPartition] = deque()
        self._lock = threading.Lock()

    # On the I/O loop

    def add(self, partitions: Iterable[AssignedPartition]) -> None:
        with self._lock:
            self.partitions = self.partitions | {one.at: one for one in partitions}

    def push(self, partition: AssignedPartition, chunks: list[Chunk]) -> None:
        """Append what was fetched, unless it no longer counts."""
        with self._lock:
            if partition.is_leaving or chunks[0].token != partition.token:
                return
            if not partition.chunks:
                self._ready.append(partition)
            partition.chunks.extend(chunks)
            size = sum(chunk.size for chunk in chunks)
            partition.buffered_bytes += size
            self.buffered_bytes += size
        self.wake()

    def leave(self, partitions: Collection[TopicPartition]) -> None:
        """Hand out nothing more of these; records in hand may still be finished."""
        with self._lock:
            for one in self._some(partitions):
                one.is_leaving = True
                self._drop(one)
            self.version += 1

    def remove(self, partitions: Collection[TopicPartition]) -> None:
        """Forget these."""
        self.leave(partitions)
        with self._lock:
            for one in self._some(partitions):
                one.is_leaving = False  # What is in hand no longer counts.
                one.token += 1
                self._given_before[one.at] = one.position
            self.partitions = {at: one for at, one in self.partitions.items() if at not in partitions}

    def seek(self, partition: AssignedPartition, offset: int, epoch: int = -1) -> None:
        """Hand out from that offset next; -1 where it is not known yet."""
        with self._lock:
            self._drop(partition)
            if partition.begun_at < 0:
                partition.begun_at = offset
            partition.position = partition.finished = offset
            partition.position_epoch = partition.finished_epoch = epoch
            self.version += 1

    def pause(self, partition: AssignedPartition, is_paused: bool) -> None:
        with self._lock:
            partition.is_paused = is_paused
            self.version += 1
        self.wake()

    def wake(self) -> None:
        waker = self.waker
        if waker is not None:
            waker()

    def _some(self, partitions: Collection[TopicPartition]) -> list[AssignedPartition]:
        return [self.partitions[at] for at in partitions if at in self.partitions]

    def _drop(self, partition: AssignedPartition) -> None:
        partition.token += 1
        self.buffered_bytes -= partition.buffered_bytes
        partition.buffered_bytes = 0
        partition.chunks.clear()
        if partition in self._ready:
            self._ready.remove(partition)

    # In the user's thread

    def take(self, most: int, *, is_one_by_one: bool = False) -> list[Any]:
        """Finish what is in hand, and hand out up to `most` records; an empty list where none are there.

        `is_one_by_one`: the caller counts in `hand.given` and `hand.done`, and watches `version`.
        """
        rest = self._rest(most, is_one_by_one)
        if rest:
            return rest
        self.finish()
        self.hand = hand = Hand()
        left = most
        while left > 0 and (found := self._front()) is not None:
            partition, chunk = found
            if chunk.records is None:
                try:
                    chunk.records = chunk.decode(partition.at)
                except CorruptBatchError:
                    if hand.records:
                        break  # The next call raises; these come first.
                    raise
            left -= self._hand_over(hand, partition, chunk, left, is_one_by_one)
        return hand.records

    def _rest(self, most: int, is_one_by_one: bool) -> list[Any]:
        """What is in hand and was not handed out yet: after an iteration that ended, or a record that is unreadable."""
        if self.hand.given >= len(self.hand.records):
            return []
        records = self.still_counts(self.hand.given)
        if is_one_by_one:
            return records
        self.hand.given = min(most, len(records))
        return records[:most]

    def take_chunks(self, rows: int) -> list[tuple[TopicPartition, Chunk]]:
        """The same with whole chunks, encoded, until there are `rows` records or more."""
        rest = self._rest(len(self.hand.records), is_one_by_one=False)
        if rest:
            return [(at, Chunk.of(some)) for at, some in _by_partition(rest).items()]
        self.finish()
        self.hand = hand = Hand()
        taken: list[tuple[TopicPartition, Chunk]] = []
        while rows > 0 and (found := self._front()) is not None:
            partition, chunk = found
            with self._lock:
                if chunk.token != partition.token or not partition.is_live:
                    continue
                self._used(partition, chunk)
                epoch = chunk.batches[-1][1].leader_epoch if chunk.batches else -1
                self._move(hand, partition, 1, chunk.next_offset, epoch)
                hand.given += 1
            taken.append((partition.at, chunk))
            rows -= chunk.row_count
        return taken

    @property
    def has_ready(self) -> bool:
        """Whether `take` would hand out something, or move a position."""
        return self.hand.given < len(self.hand.records) or any(one.is_live for one in tuple(self._ready))

    @property
    def is_full(self) -> bool:
        """Whether some partition is not fetched until something is taken."""
        return self.is_waiting_for_room

    @property
    def ready_rows(self) -> int:
        """How many records are there at most."""
        with self._lock:
            return sum(chunk.row_count for one in self._ready if one.is_live for chunk in one.chunks)

    def _front(self) -> tuple[AssignedPartition, Chunk] | None:
        """The next chunk, partitions by turns."""
        with self._lock:
            for _ in range(len(self._ready)):
                partition = self._ready[0]
                self._ready.rotate(-1)
                if partition.is_live:
                    return partition, partition.chunks[0]
        return None

    def _hand_over(self, hand: Hand, partition: AssignedPartition, chunk: Chunk, most: int, is_one_by_one: bool) -> int:
        records = chunk.records
        assert records is not None
        with self._lock:
            if chunk.token != partition.token or not partition.is_live:
                return 0
            if chunk.index == 0 and len(records) <= most:
                some = records
            else:
                some = records[chunk.index : chunk.index + most]
            chunk.index += len(some)
            epoch = some[-1].leader_epoch if some else -1
            if chunk.index == len(records):
                self._used(partition, chunk)
                next_offset = chunk.next_offset
            else:
                next_offset = some[-1].offset + 1
            self._move(hand, partition, len(some), next_offset, epoch)
            hand.records += some
            if not is_one_by_one:
                hand.given += len(some)
        return len(some)

    def _used(self, partition: AssignedPartition, chunk: Chunk) -> None:
        partition.chunks.popleft()
        if not partition.chunks:
            self._ready.remove(partition)
        partition.buffered_bytes -= chunk.size
        self.buffered_bytes -= chunk.size
        if self.is_waiting_for_room:
            self._on_room()

    def _move(self, hand: Hand, partition: AssignedPartition, count: int, next_offset: int, epoch: int) -> None:
        partition.position = next_offset
        if epoch >= 0:
            partition.position_epoch = epoch
        hand.spans.append(Span(partition, partition.token, count, next_offset, partition.position_epoch))

    def finish(self) -> None:
        """Everything in hand is finished."""
        hand = self.hand
        if hand.spans:
            hand.done = hand.given
            with self._lock:
                for partition, offset, epoch in hand.reached(hand.done).values():
                    partition.finished = max(partition.finished, offset)
                    partition.finished_epoch = epoch
                self.hand = Hand()
        if self.on_finished is not None:
            self.on_finished()

    def drop_hand(self) -> None:
        """What is in hand stays unfinished for good, and does not count as handed out."""
        with self._lock:
            self.hand = Hand()

    def still_counts(self, index: int) -> list[Any]:
        """The records in hand from that index on: without those that a seek or a revocation made void, and without
        those of paused partitions, which go back into the buffer."""
        hand = self.hand
        kept = Hand()
        returned: list[tuple[Span, list[Any]]] = []
        begin = 0
        for span in hand.spans:
            rest = hand.records[max(begin, index) : begin + span.count]
            begin += span.count
            if not rest or span.token != span.partition.token:
                continue
            if span.partition.is_live:
                kept.records += rest
                kept.spans.append(Span(span.partition, span.token, len(rest), span.next_offset, span.epoch))
            else:
                returned.append((span, rest))
        with self._lock:
            for partition, offset, epoch in hand.reached(index).values():
                partition.finished = max(partition.finished, offset)
                partition.finished_epoch = epoch
            for span, rest in reversed(returned):
                self._put_back(span, rest)
            self.hand = kept
        if self.on_finished is not None:
            self.on_finished()
        return kept.records

    def _put_back(self, span: Span, records: list[Any]) -> None:
        partition = span.partition
        if span.token != partition.token:
            return
        chunk = Chunk.of(records)
        chunk.token, chunk.next_offset = span.token, span.next_offset
        if not partition.chunks:
            self._ready.append(partition)
        partition.chunks.appendleft(chunk)
        partition.position = records[0].offset

    # Offsets

    def finished_offsets(self, only: Collection[TopicPartition] | None = None) -> dict[TopicPartition, CommittedOffset]:
        """What may be committed and is not."""
        with self._lock:
            # The user's thread may put another hand in the place of this one: its count belongs to its spans.
            hand = self.hand
            return self._offsets(hand, hand.done, only)

    def given_offsets(self) -> dict[TopicPartition, CommittedOffset]:
        """What was handed out, to the last record."""
        with self._lock:
            hand = self.hand
            return self._offsets(hand, hand.given, None)

    def position(self, at: TopicPartition) -> int:
        """The next offset to hand out; -1 where it is not known yet."""
        hand = self.hand
        begin = 0
        for span in hand.spans:
            end = begin + span.count
            if span.partition.at == at and hand.records and hand.given < end and span.token == span.partition.token:
                return int(hand.records[max(begin, hand.given)].offset)
            begin = end
        return self.partitions[at].position

    def was_read_before(self, at: TopicPartition, offset: int) -> bool:
        """Whether the records below that offset were handed out before the partition went and came back, and not since.

        Another member may have handled them in between.
        """
        return self.partitions[at].position < offset <= self._given_before.get(at, -1)

    def _offsets(
        self, hand: Hand, count: int, only: Collection[TopicPartition] | None
    ) -> dict[TopicPartition, CommittedOffset]:
        reached = hand.reached(count)
        found: dict[TopicPartition, CommittedOffset] = {}
        for at, one in self.partitions.items():
            if only is not None and at not in only:
                continue
            _, offset, epoch = reached.get(at, (one, one.finished, one.finished_epoch))
            if offset >= 0 and offset != one.committed:
                found[at] = CommittedOffset(offset, epoch)
        return found

    def note_committed(self, offsets: dict[TopicPartition, CommittedOffset]) -> None:
        for at, one in offsets.items():
            if at in self.partitions:
                self.partitions[at].committed = one.offset


def _by_partition(records: list[Any]) -> dict[TopicPartition, list[Any]]:
    found: dict[TopicPartition, list[Any]] = {}
    for record in records:
        found.setdefault(record.topic_partition, []).append(record)
    return found
