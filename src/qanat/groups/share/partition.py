"""A share partition: which member of one share group holds which records of one partition (KIP-932).

    offset = partition.next_fetch_offset(now_ms)              # from where to read the log
    acquired = partition.acquire(member, read, take, now_ms)  # the records of it that the member gets
    change = partition.acknowledge(member, batches, now_ms)   # the outcome of some records
    change = partition.tick(now_ms)                           # once next_deadline_ms has come

Rule 1: a decision holds at once; write each `Change` in the order of the decisions, and
        answer only when it is durable. Where writing fails, load the partition again.
Rule 2: acquiring changes nothing durable: after a crash, records that were held are available.
Rule 3: a record that is archived while there is a dead-letter topic is `ARCHIVING` until `finish_archiving` is called.

The time is steady milliseconds, and an argument.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from qanat.groups.share.record_states import AcknowledgeType, RecordState, StateBatch, joined, since
from qanat.groups.share.rules import ShareRules
from qanat.groups.share.runs import NO_MEMBER, Cause, Run, Runs
from qanat.model.error_codes import ErrorCode

_AVAILABLE, _ACQUIRED = RecordState.AVAILABLE, RecordState.ACQUIRED
_ACKNOWLEDGED, _ARCHIVING, _ARCHIVED = RecordState.ACKNOWLEDGED, RecordState.ARCHIVING, RecordState.ARCHIVED

WHOLE_BATCH_RECORDS_MAX = 10_000
"""Batches of more records are split, whatever the member wants: each of them may get a state of its own."""


class Span(NamedTuple):
    """A batch of the log; not wanted are markers, and records of aborted transactions where those are left out."""

    first_offset: int
    last_offset: int
    is_wanted: bool = True


class Read(NamedTuple):
    """A range of the log that was read, without gaps except those of compaction."""

    offset: int
    spans: Iterable[Span]
    """Iterated only as far as a member needs them."""
    end_offset: int


class Take(NamedTuple):
    """How much a member wants."""

    max_records: int
    batch_size: int = 1
    """Ranges have about so many records, so that they can be acknowledged one by one."""
    is_exact: bool = False
    """Whether batches are split; otherwise the batch at the limit is acquired as a whole."""


class AcquiredRange(NamedTuple):
    """Records that a member holds now."""

    first_offset: int
    last_offset: int
    delivery_count: int


class Acknowledgement(NamedTuple):
    """A member's acknowledgement of a range of records: one type for each of them, or one for all."""

    first_offset: int
    last_offset: int
    types: Sequence[int]


class ArchivingRange(NamedTuple):
    """Records to write to the dead-letter topic; then call `finish_archiving`."""

    first_offset: int
    last_offset: int
    delivery_count: int
    cause: Cause


class Change(NamedTuple):
    """What to write, and what to do once that is durable."""

    start_offset: int
    batches: tuple[StateBatch, ...]
    archiving: tuple[ArchivingRange, ...] = ()


class SharePartition:
    """See the module."""

    __slots__ = ("_available", "_next_ms", "_open", "_runs", "rules")

    def __init__(self, start_offset: int, rules: ShareRules, batches: Iterable[StateBatch] = ()) -> None:
        self.rules = rules
        self._runs = Runs(start_offset)
        self._available = 0
        """Records that no member holds, delayed ones included."""
        self._open = 0
        """Records that are not finished."""
        self._next_ms: int | None = None
        """No deadline is earlier than this."""
        for batch in since(batches, start_offset):
            self._restore(batch)
        self._runs.settle(start_offset, self._runs.end_offset)

    def _restore(self, batch: StateBatch) -> None:
        if batch.first_offset > self._runs.end_offset:
            # Acquired when the state was last written, and not acknowledged since.
            self._append(Run(self._runs.end_offset, batch.first_offset - 1, _AVAILABLE))
        first, last, state, count = batch
        run = Run(first, last, RecordState(state), count)
        if run.state is _ACQUIRED:
            run.state = _AVAILABLE
        elif run.state is _ARCHIVING:
            is_worn = count >= self.rules.delivery_count_limit
            run.cause = Cause.DELIVERED_TOO_OFTEN if is_worn else Cause.REJECTED
        self._append(run)

    def __repr__(self) -> str:
        return f"<SharePartition {self.start_offset}-{self.end_offset} {list(self._runs)}>"

    @property
    def start_offset(self) -> int:
        """Everything before it is finished."""
        return self._runs.start_offset

    @property
    def end_offset(self) -> int:
        """Nothing from here on was ever acquired."""
        return self._runs.end_offset

    @property
    def done_count(self) -> int:
        """Finished records behind the start."""
        return self.end_offset - self.start_offset - self._open

    @property
    def held_count(self) -> int:
        """Records that members hold."""
        return sum(run.last + 1 - run.first for run in self._runs if run.state is _ACQUIRED)

    @property
    def next_deadline_ms(self) -> int | None:
        """When to `tick`; possibly nothing is due then."""
        return self._next_ms

    def runs(self) -> list[tuple[StateBatch, str]]:
        """Every record behind the start and its holder; for inspection."""
        return [(run.batch, run.member) for run in self._runs]

    def in_delivery(self) -> list[tuple[StateBatch, str, int]]:
        """Records that members hold, that came back, or that are given up just now: their holder, and when their lock
        ends; for inspection."""
        return [
            (run.batch, run.member, run.until_ms)
            for run in self._runs
            if run.state in (_ACQUIRED, _ARCHIVING) or (run.state is _AVAILABLE and run.count)
        ]

    # Acquiring

    def next_fetch_offset(self, now_ms: int) -> int | None:
        """From where on there may be records for a member; None where as many are held as may be."""
        if self._available:
            for run in self._runs:
                if run.state is _AVAILABLE and run.until_ms <= now_ms:
                    return run.first
        return self.end_offset if self._open < self.rules.max_record_locks else None

    def acquire(self, member: str, read: Read, take: Take, now_ms: int) -> list[AcquiredRange]:
        """Acquire for a member what it may have of the read range."""
        acquired: list[AcquiredRange] = []
        cursor, room = read.offset, take.max_records
        for span in read.spans:
            if room <= 0:
                break
            self._lose(cursor, span.first_offset - 1)
            first = max(cursor, span.first_offset)
            cursor = span.last_offset + 1
            if span.is_wanted:
                for part in self._take(member, Span(first, span.last_offset), room, take, now_ms):
                    room -= part.last_offset - part.first_offset + 1
                    _name(acquired, part, take.batch_size)
            else:
                self._lose(first, span.last_offset)
            if cursor > self.end_offset:
                break  # No more may be held, or the member has enough.
        else:
            self._lose(cursor, read.end_offset - 1)
        self._runs.settle(read.offset, self.end_offset)
        return acquired

    def _take(self, member: str, span: Span, room: int, take: Take, now_ms: int) -> Iterator[AcquiredRange]:
        until_ms = now_ms + self.rules.lock_ms
        known = self._runs.end_offset
        for found in self._runs.overlapping(span.first_offset, span.last_offset):
            if room <= 0:
                return
            if found.state is not _AVAILABLE or found.until_ms > now_ms:
                continue
            first = max(found.first, span.first_offset)
            (run,) = self._runs.between(first, min(found.last, span.last_offset, first + room - 1))
            self._available -= len(run)
            run.state, run.member, run.until_ms = _ACQUIRED, member, until_ms
            run.count += 1
            room -= len(run)
            self._expect(until_ms)
            yield AcquiredRange(run.first, run.last, run.count)
        first = max(known, span.first_offset)
        locks = self.rules.max_record_locks - self._open
        if first > span.last_offset or room <= 0 or locks <= 0:
            return
        most = min(room, locks) if take.is_exact else WHOLE_BATCH_RECORDS_MAX
        last = min(span.last_offset, first + most - 1)
        self._append(Run(first, last, _ACQUIRED, 1, member, until_ms))
        self._expect(until_ms)
        yield AcquiredRange(first, last, 1)

    def _lose(self, first: int, last: int) -> None:
        """Finish records that do not exist, or are not wanted."""
        for run in self._runs.between(first, last):
            if run.state is _AVAILABLE:
                self._finish(run, _ARCHIVED)
        if last >= self.end_offset:
            self._append(Run(self.end_offset, last, _ARCHIVED))

    # Acknowledging and releasing

    def acknowledge(self, member: str, batches: Sequence[Acknowledgement], now_ms: int) -> Change | ErrorCode | None:
        """Apply a member's acknowledgements of records that it holds: all of them, or none."""
        ranges = [one for batch in batches for one in _ranges(batch) if one[1] >= self.start_offset]
        end_offset = self.start_offset
        for first, last, _ in ranges:
            if (error := self._why_not(member, first, last, end_offset)) is not None:
                return error
            end_offset = last + 1
        start_offset = self.start_offset
        touched: list[Run] = []
        for run, kind in self._runs.carved([(max(first, start_offset), last, kind) for first, last, kind in ranges]):
            self._say(run, kind, now_ms)
            if run.state is not _ACQUIRED:
                touched.append(run)
        return self._change(touched)

    def _why_not(self, member: str, first: int, last: int, end_offset: int) -> ErrorCode | None:
        if last >= self.end_offset:
            return ErrorCode.INVALID_REQUEST
        if end_offset > max(first, self.start_offset):
            return ErrorCode.INVALID_RECORD_STATE  # The range before has finished it.
        for run in self._runs.overlapping(max(first, self.start_offset), last):
            if run.state is not _ACQUIRED or run.member != member:
                return ErrorCode.INVALID_RECORD_STATE
        return None

    def _say(self, run: Run, kind: int, now_ms: int) -> None:
        match kind:
            case AcknowledgeType.ACCEPT:
                self._finish(run, _ACKNOWLEDGED)
            case AcknowledgeType.GAP:
                self._finish(run, _ARCHIVED)
            case AcknowledgeType.RELEASE:
                self._release(run, now_ms)
            case AcknowledgeType.REJECT:
                self._give_up(run, Cause.REJECTED)
            case _:
                assert kind == AcknowledgeType.RENEW, kind
                run.until_ms = now_ms + self.rules.lock_ms
                self._expect(run.until_ms)

    def release_member(self, member: str, now_ms: int, *, is_attempt: bool) -> Change | None:
        """Release the records that a member holds; unless `is_attempt`, their deliveries are not counted."""
        touched = [run for run in self._runs if run.state is _ACQUIRED and run.member == member]
        for run in touched:
            if is_attempt:
                self._release(run, now_ms)
            else:
                run.count -= 1
                self._make_available(run, 0)
        return self._change(touched)

    def tick(self, now_ms: int) -> Change | None:
        """Release records whose lock has expired."""
        touched = [run for run in self._runs if run.state is _ACQUIRED and run.until_ms <= now_ms]
        for run in touched:
            self._release(run, now_ms)
        waiting = (run.until_ms for run in self._runs if run.state in (_AVAILABLE, _ACQUIRED))
        self._next_ms = min((until_ms for until_ms in waiting if until_ms > now_ms), default=None)
        return self._change(touched)

    def finish_archiving(self, first: int, last: int) -> Change | None:
        """These records are in the dead-letter topic, or need not be."""
        touched = [run for run in self._runs.between(first, last) if run.state is _ARCHIVING]
        for run in touched:
            self._finish(run, _ARCHIVED)
        return self._change(touched)

    def archiving(self) -> tuple[ArchivingRange, ...]:
        """Records to write to the dead-letter topic; to be continued after a crash."""
        return tuple(_archiving(self._runs))

    def forget_before(self, log_start_offset: int) -> None:
        """The log starts later now: drop the records before, even if they are held."""
        for run in self._runs.between(self.start_offset, log_start_offset - 1):
            self._available -= len(run) if run.state is _AVAILABLE else 0
            self._open -= 0 if run.is_done else len(run)
        self._runs.forget_before(log_start_offset)

    def _release(self, run: Run, now_ms: int) -> None:
        if run.count >= self.rules.delivery_count_limit:
            self._give_up(run, Cause.DELIVERED_TOO_OFTEN)
            return
        delay_ms = self.rules.delay_ms(run.count)
        self._make_available(run, now_ms + delay_ms if delay_ms else 0)

    def _make_available(self, run: Run, until_ms: int) -> None:
        run.state, run.member, run.until_ms = _AVAILABLE, NO_MEMBER, until_ms
        self._available += len(run)
        if until_ms:
            self._expect(until_ms)

    def _give_up(self, run: Run, cause: Cause) -> None:
        if not self.rules.has_dead_letters:
            self._finish(run, _ARCHIVED)
            return
        run.state, run.member, run.until_ms, run.cause = _ARCHIVING, NO_MEMBER, 0, cause

    def _finish(self, run: Run, state: RecordState) -> None:
        """Finish records; their history is dropped, so that neighbours become one."""
        if run.state is _AVAILABLE:
            self._available -= len(run)
        self._open -= len(run)
        run.state, run.member, run.until_ms, run.count, run.cause = state, NO_MEMBER, 0, 0, None

    # Bookkeeping

    def _append(self, run: Run) -> None:
        if run.state is _AVAILABLE:
            self._available += len(run)
        if not run.is_done:
            self._open += len(run)
        self._runs.append(run)

    def _expect(self, at_ms: int) -> None:
        if self._next_ms is None or at_ms < self._next_ms:
            self._next_ms = at_ms

    def _change(self, touched: Sequence[Run]) -> Change | None:
        """What to write for some runs, which are in order and have just changed."""
        if not touched:
            return None
        batches = [run.batch for run in touched]
        archiving = tuple(_archiving(touched))
        self._runs.settle(touched[0].first, touched[-1].last)
        return Change(self.start_offset, tuple(joined(since(batches, self.start_offset))), archiving)


def _archiving(runs: Iterable[Run]) -> Iterator[ArchivingRange]:
    for run in runs:
        if run.state is _ARCHIVING:
            assert run.cause is not None, run
            yield ArchivingRange(run.first, run.last, run.count, run.cause)


def _name(acquired: list[AcquiredRange], part: AcquiredRange, batch_size: int) -> None:
    """Add a range to a reply: join it with the one before, as long as that is smaller than `batch_size`."""
    if acquired:
        last = acquired[-1]
        is_next = last.last_offset + 1 == part.first_offset and last.delivery_count == part.delivery_count
        if is_next and last.last_offset - last.first_offset + 1 < batch_size:
            acquired[-1] = last._replace(last_offset=part.last_offset)
            return
    acquired.append(part)


def _ranges(batch: Acknowledgement) -> Iterator[tuple[int, int, int]]:
    """Neighbours with the same acknowledgement."""
    types = batch.types
    if types.count(types[0]) == len(types):
        yield batch.first_offset, batch.last_offset, types[0]
        return
    first = batch.first_offset
    for kind, same in groupby(types):
        last = first + sum(1 for _ in same) - 1
        yield first, last, kind
        first = last + 1
