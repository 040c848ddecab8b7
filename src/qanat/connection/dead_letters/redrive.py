"""Redrive: dead letters written back to the topics that they come from, each exactly once.

A transaction has at most 10,000 letters and the marks that they were redriven (`marks`), so that a redrive can be
killed anywhere and goes on where it was. It is short, and no wait for a rate limit is inside of one: nobody's last
stable offset is held for longer than a broker takes to write it; a killed one is aborted after `TRANSACTION_MS`.

A record returns to its partition, with its key, value, headers and timestamp: what is in order by key stays so, under
any partitioner. Where that partition is gone, or `by_key` is set, Kafka's hash of the key decides.

Rule 1: the transactional id belongs to the topic of letters. A second redrive fences the first one, which ends with
        `RedriveFencedError`; whatever the first committed, the second knows.
Rule 2: marks are read after that, once no transaction is open.
Rule 3: a letter whose topic is gone, or internal, is left where it is and counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from qanat.connection.batch_producer import BatchProducer
from qanat.connection.cluster import Cluster
from qanat.connection.dead_letters.marks import Mark, MarkTooLongError
from qanat.connection.dead_letters.reading import Ranges, read_marks, reading_of, redrive_name
from qanat.connection.dead_letters.selection import EVERY_LETTER, LetterSelection
from qanat.connection.faults import RefusedError, check
from qanat.connection.records.topic_reading import read
from qanat.model.dead_letters import Letter, parse_letter
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition
from qanat.wire.compression import Codec
from qanat.wire.key_hash import partition_of
from qanat.wire.records import Record, encode_batch

TRANSACTION_RECORDS_MAX = 10_000
TRANSACTION_MS = 15_000
"""How long a broker waits for the end of a transaction before it aborts it."""
_TRANSACTION_BYTES = 8 * 1024 * 1024
_BATCH_BYTES = 512 * 1024
_RECORD_BYTES = 64
_FENCED = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
_GONE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION)


class RedriveStoppedError(QanatError):
    """A redrive ended early; the message says how far it came."""


class RedriveFencedError(RedriveStoppedError):
    """Another redrive of the same topic has begun."""

    code = ErrorCode.PRODUCER_FENCED


@dataclass(frozen=True, slots=True)
class RedriveOptions:
    """What to redrive, and how fast."""

    selection: LetterSelection = EVERY_LETTER
    by_key: bool = False
    records_per_second: int | None = None
    records_max: int | None = None
    """End after so many letters."""
    is_dry_run: bool = False

    @property
    def transaction_records(self) -> int:
        """At most one second's letters, so that a slow redrive is a steady one."""
        return min(TRANSACTION_RECORDS_MAX, self.records_per_second or TRANSACTION_RECORDS_MAX)


@dataclass(slots=True)
class RedriveOutcome:
    """Letters by what became of them."""

    redriven: int = 0
    to: dict[str, int] = field(default_factory=dict)
    """Redriven letters by topic."""
    passed_over: int = 0
    """Not selected."""
    done_before: int = 0
    """Redriven by an earlier run."""
    without_origin: int = 0
    """Records that do not say where they come from."""
    topic_gone: int = 0
    """Letters whose topic is gone or internal."""
    is_complete: bool = True
    """Whether the range was read to its end."""


@dataclass(slots=True)
class _Transaction:
    """Letters to write, and the marks of their partitions once they are written."""

    records: dict[str, dict[int, list[Record]]] = field(default_factory=dict)
    touched: set[int] = field(default_factory=set)
    count: int = 0
    size: int = 0


Progress = Callable[[int], None]


class Redrive:
    """One run. Used once: `await Redrive(cluster, topic, options).run(ranges)`."""

    def __init__(
        self, cluster: Cluster, topic: str, options: RedriveOptions, report_progress: Progress = lambda count: None
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self._options = options
        self._report_progress = report_progress
        self.outcome = RedriveOutcome()
        self._marks: dict[int, Mark] = {}
        self._cursors: dict[int, int] = {}
        """Behind the last offset that was looked at."""
        self._sizes: dict[str, int] = {}
        """Partitions of the topics of origin; 0 where a topic cannot be written to."""
        self._open = _Transaction()
        self._producer: BatchProducer | None = None
        self._began_at = 0.0

    async def run(self, ranges: Ranges) -> RedriveOutcome:
        """Redrive the letters in these ranges; raises `RedriveStoppedError` where it cannot go on."""
        self._began_at = asyncio.get_running_loop().time()
        try:
            await self._begin(ranges)
            async for records in read(self._cluster, reading_of(self._topic, self._remaining(ranges))):
                for partition, record in records:
                    if self._is_at_limit():
                        self.outcome.is_complete = False
                        break
                    await self._take(partition, record)
                if not self.outcome.is_complete:
                    break
            await self._commit()
        except asyncio.CancelledError:
            await self._abort()  # An interrupted command, or a client of HTTP that is gone: hold nothing open.
            raise
        except QanatError as fault:
            await self._abort()
            raise self._stopped(fault) from None
        return self.outcome

    async def _begin(self, ranges: Ranges) -> None:
        deadline = self._cluster.deadline()
        if not self._options.is_dry_run:
            self._producer = await BatchProducer.transactional(
                self._cluster, redrive_name(self._topic), TRANSACTION_MS, deadline
            )
        is_stable = not self._options.is_dry_run
        self._marks = await read_marks(self._cluster, self._topic, ranges, deadline, is_stable=is_stable)

    def _remaining(self, ranges: Ranges) -> Ranges:
        """The ranges without what is marked at their beginning."""
        found: dict[int, tuple[int, int]] = {}
        for partition, (first, end) in ranges.items():
            begin = min(end, max(first, self._marks[partition].first_offset))
            self.outcome.done_before += begin - first
            found[partition] = begin, end
            self._cursors[partition] = begin
        return found

    def _is_at_limit(self) -> bool:
        most = self._options.records_max
        return most is not None and self.outcome.redriven + self._open.count >= most

    async def _take(self, partition: int, record: Record) -> None:
        mark, cursor = self._marks[partition], self._cursors[partition]
        self._cursors[partition] = record.offset + 1
        if mark.covers(record.offset):
            self.outcome.done_before += 1
            return
        # Offsets without a record (markers, aborted or compacted ones) belong to the run before them.
        if mark.first_offset == cursor or mark.covers(cursor - 1):
            mark.add(cursor, record.offset)
        letter = parse_letter(record.headers)
        if letter is None:
            self.outcome.without_origin += 1
            return
        if not self._options.selection.wants(partition, record, letter):
            self.outcome.passed_over += 1
            return
        size = await self._partitions(letter.origin.topic)
        if not size:
            self.outcome.topic_gone += 1
            return
        self._add(partition, record, letter, size)
        mark.add(record.offset, record.offset + 1)
        if self._open.count >= self._options.transaction_records or self._open.size >= _TRANSACTION_BYTES:
            await self._commit()

    def _add(self, partition: int, record: Record, letter: Letter, size: int) -> None:
        origin = letter.origin
        at = origin.partition
        if self._options.by_key or at >= size:
            at = origin.offset % size if record.key is None else partition_of(record.key, size)
        timestamp = record.timestamp if origin.timestamp_ms is None else origin.timestamp_ms
        rows = self._open.records.setdefault(origin.topic, {}).setdefault(at, [])
        rows.append(Record(0, timestamp, record.key, record.value, letter.headers))
        self._open.touched.add(partition)
        self._open.count += 1
        self._open.size += _size(record)

    async def _partitions(self, topic: str) -> int:
        """How many partitions a topic of origin has; 0 where letters cannot return to it."""
        size = self._sizes.get(topic)
        if size is None:
            (found,) = (await self._cluster.metadata([topic], self._cluster.deadline())).topics
            if found.error_code in _GONE or found.is_internal:
                size = 0
            else:
                check(f"topic {topic}, to which letters return", found.error_code)
                size = len(found.partitions)
            self._sizes[topic] = size
        return size

    async def _commit(self) -> None:
        """Write the open letters and their marks, and wait as long as the rate demands."""
        ready, self._open = self._open, _Transaction()
        if not ready.count:
            return
        if self._producer is not None:
            deadline = self._cluster.deadline()
            notes = {TopicPartition(self._topic, number): self._marks[number].note() for number in ready.touched}
            offsets = {at: self._marks[at.partition].first_offset for at in notes}
            for topic, partitions in ready.records.items():
                for batches in _rounds(partitions):
                    await self._producer.send(topic, batches, deadline)
            await self._producer.commit_offsets(redrive_name(self._topic), offsets, deadline, metadata=notes)
            await self._producer.end(deadline, is_committed=True)
        self.outcome.redriven += ready.count
        for topic, partitions in ready.records.items():
            self.outcome.to[topic] = self.outcome.to.get(topic, 0) + sum(map(len, partitions.values()))
        self._report_progress(self.outcome.redriven)
        await self._keep_pace()

    async def _keep_pace(self) -> None:
        rate = self._options.records_per_second
        if rate and self._producer is not None:
            due_at = self._began_at + self.outcome.redriven / rate
            await asyncio.sleep(max(0.0, due_at - asyncio.get_running_loop().time()))

    async def _abort(self) -> None:
        if self._producer is not None:
            with suppress(QanatError):
                await self._producer.end(self._cluster.deadline(), is_committed=False)

    def _stopped(self, fault: QanatError) -> RedriveStoppedError:
        done = f"{self.outcome.redriven:,} letters were redriven"
        if isinstance(fault, RefusedError) and fault.code in _FENCED:
            return RedriveFencedError(f"another redrive of {self._topic} has begun, so that this one ends: {done}")
        hint = "run it again to go on"
        if isinstance(fault, MarkTooLongError):
            hint = "redrive the letters between them first, or trim the topic"
        stopped = RedriveStoppedError(f"{fault}; {done}: {hint}")
        stopped.code = fault.code
        return stopped


def _rounds(partitions: dict[int, list[Record]]) -> list[dict[int, bytearray]]:
    """Batches in rounds of at most one for each partition, in order."""
    rounds: list[dict[int, bytearray]] = []
    for number, records in partitions.items():
        for index, rows in enumerate(_chunks(records)):
            if index == len(rounds):
                rounds.append({})
            rounds[index][number] = encode_batch(rows, codec=Codec.LZ4)
    return rounds


def _chunks(records: list[Record]) -> list[list[Record]]:
    """Records numbered from 0 in pieces of about a batch."""
    chunks: list[list[Record]] = []
    size = _BATCH_BYTES
    for record in records:
        if size >= _BATCH_BYTES:
            chunks.append([])
            size = 0
        rows = chunks[-1]
        rows.append(Record(len(rows), record.timestamp, record.key, record.value, record.headers))
        size += _size(record)
    return chunks


def _size(record: Record) -> int:
    return len(record.key or b"") + len(record.value or b"") + _RECORD_BYTES
