"""A share partition: decisions of `groups.share.partition` are persisted, awaited and followed up.

Rule: an acknowledgement is answered when the state is durable (`replicas.durable_acknowledgement`). Where it cannot be
      written, the partition ends: the next user loads what is durable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from qanat.broker.replicas.partition import Partition
from qanat.broker.share.remote_state import SharePersister
from qanat.groups.share.partition import (
    Acknowledgement,
    AcquiredRange,
    ArchivingRange,
    Change,
    Read,
    SharePartition,
    Span,
    Take,
)
from qanat.groups.share.record_states import RecordState, StateBatch
from qanat.groups.share.state_records import ShareKey, ShareSnapshot
from qanat.groups.share.state_shard import StateReply, WriteState
from qanat.log.log_reads import LogRead
from qanat.log.runtime.sync_future import SyncFuture
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.telemetry.share_counters import ShareCounters
from qanat.wire.batch_header import BatchHeader, read_header, split_batches

if TYPE_CHECKING:
    from qanat.groups.share.rules import ShareRules

Wake = Callable[[], None]
Durable = SyncFuture[None]
"""Of a change: it is persisted, or a fault says why it is not."""


class Policy(NamedTuple):
    """The rules for one group in all its partitions."""

    rules: ShareRules
    is_committed: bool
    """Whether records of undecided and aborted transactions are left out."""
    dead_letter_topic: str = ""


class Reading(NamedTuple):
    """A read of the log, and the offset that it began with."""

    offset: int
    read: LogRead


NO_READING = Reading(0, LogRead((), 0))


class Acquired(NamedTuple):
    """The records that a member acquired: their ranges, and the batches that hold them."""

    ranges: list[AcquiredRange]
    views: list[memoryview]
    size: int


NOTHING = Acquired([], [], 0)


class StateNotWrittenError(QanatError):
    """A change of a share partition is not persisted."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(f"the state of the share group cannot be written: {code.name}")
        self.code = code


class LedSharePartition:
    """One partition of one group, on the broker that leads the partition."""

    def __init__(
        self,
        key: ShareKey,
        partition: Partition,
        persister: SharePersister,
        state: ShareSnapshot,
        policy: Policy,
        write_dead_letters: Callable[[LedSharePartition, Sequence[ArchivingRange]], None],
        on_durable: Callable[[LedSharePartition], None],
    ) -> None:
        self.key = key
        self.partition = partition
        self.policy = policy
        self.records = SharePartition(state.start_offset, policy.rules, state.batches)
        self.counters = ShareCounters()
        """Those of all share partitions of this broker, once it is loaded."""
        self.durable_start_offset = state.start_offset
        self.is_serving = True
        self._persister = persister
        self._state_epoch = state.state_epoch
        self._write_dead_letters = write_dead_letters
        self._on_durable = on_durable
        self._waiting: dict[Wake, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms: int | None = None
        if archiving := self.records.archiving():
            self._write_dead_letters(self, archiving)

    def __repr__(self) -> str:
        return f"<LedSharePartition {self.key.group_id} {self.partition.at} {self.records!r}>"

    def apply_settings(self, policy: Policy) -> None:
        """Apply changed settings to records that are acquired from now on."""
        if policy is not self.policy:
            self.policy, self.records.rules = policy, policy.rules

    def end(self) -> None:
        """The state here is no longer trusted, or not needed: fetches that wait look for another one."""
        self.is_serving = False
        if self._timer is not None:
            self._timer.cancel()
        self._wake()

    def _now_ms(self) -> int:
        return self._persister.clocks.steady_ms()

    def in_delivery(self) -> list[tuple[StateBatch, str, int | None]]:
        """Records in delivery, their holder, and how long its lock lasts."""
        now_ms = self._now_ms()
        return [
            (batch, member, max(0, until_ms - now_ms) if batch.state == RecordState.ACQUIRED else None)
            for batch, member, until_ms in self.records.in_delivery()
        ]

    # Acquiring

    def read_now(self, max_bytes: int) -> Reading | None:
        """The part of the log that may be acquired next, empty where there is none; None where it is not in memory.

        Raises what reading raises.
        """
        offset = self._fetch_offset()
        if offset is None:
            return NO_READING
        read = self.partition.read_now(offset, max_bytes, self._end_offset)
        if read is None or (
            self._leaves_out(read) and not self.partition.has_aborted_in_memory(offset, read.next_offset)
        ):
            return None
        return Reading(offset, read)

    async def read(self, max_bytes: int) -> Reading:
        """The same, waiting for the disk."""
        offset = self._fetch_offset()
        if offset is None:
            return NO_READING
        read = await self.partition.read(offset, max_bytes, self._end_offset)
        if self._leaves_out(read):
            await self.partition.load_aborted(offset, read.next_offset)
        return Reading(offset, read)

    def _leaves_out(self, read: LogRead) -> bool:
        return self.policy.is_committed and bool(read.slices)

    def _fetch_offset(self) -> int | None:
        """From where on to read; None where there is nothing to acquire."""
        self.records.forget_before(self.partition.log.log_start_offset)
        offset = self.records.next_fetch_offset(self._now_ms())
        return None if offset is None or offset >= self._end_offset else offset

    def has_moved(self, reading: Reading) -> bool:
        """Whether the part that may be acquired next is another one than was read."""
        return reading is not NO_READING and self._fetch_offset() not in (None, reading.offset)

    @property
    def _end_offset(self) -> int:
        return self.partition.end_of_reading(is_committed=self.policy.is_committed)

    def acquire(self, member: str, reading: Reading, take: Take) -> Acquired:
        """Let a member acquire what it may of what was read; others may have acquired some of it meanwhile."""
        offset, read = reading
        if not read.slices and read.next_offset <= offset:
            return NOTHING
        walked: list[tuple[BatchHeader, memoryview]] = []
        spans = self._spans(read, offset, walked)
        given = self.records.acquire(member, Read(offset, spans, read.next_offset), take, self._now_ms())
        self._set_timer()
        self.counters.redelivered += sum(
            one.last_offset + 1 - one.first_offset for one in given if one.delivery_count > 1
        )
        views = _holding(walked, given)
        return Acquired(given, views, sum(map(len, views)))

    def _spans(self, read: LogRead, offset: int, walked: list[tuple[BatchHeader, memoryview]]) -> Iterator[Span]:
        """The batches that were read, as far as the iterator goes; those that were looked at are in `walked`."""
        aborted: dict[int, list[tuple[int, int]]] = {}
        if self.policy.is_committed:
            for entry in self.partition.log.aborted_transactions(offset, read.next_offset):
                aborted.setdefault(entry.producer_id, []).append((entry.first_offset, entry.last_offset))
        for view in read.views():
            for batch in split_batches(view):
                header = read_header(batch)
                is_wanted = not header.is_control and header.record_count > 0
                if is_wanted and header.is_transactional and header.producer_id in aborted:
                    base = header.base_offset
                    is_wanted = not any(first <= base <= last for first, last in aborted[header.producer_id])
                walked.append((header, batch))
                yield Span(header.base_offset, header.last_offset, is_wanted)

    # Acknowledging

    def acknowledge(self, member: str, batches: Sequence[Acknowledgement]) -> Durable | ErrorCode:
        """Apply a member's acknowledgements; the future is of their being persisted."""
        change = self.records.acknowledge(member, batches, self._now_ms())
        if isinstance(change, ErrorCode):
            return change
        return self._write(change) or ErrorCode.NONE

    def release(self, member: str, *, is_attempt: bool) -> Durable | None:
        """Release all records that a member holds."""
        return self._write(self.records.release_member(member, self._now_ms(), is_attempt=is_attempt))

    def archive(self, first: int, last: int) -> None:
        self._write(self.records.finish_archiving(first, last))

    def _write(self, change: Change | None) -> Durable | None:
        self._set_timer()
        if change is None or not self.is_serving:
            return None
        epochs = self._state_epoch, self.partition.leader_epoch
        written = self._persister.ask(WriteState(self.key, *epochs, change.start_offset, change.batches))

        durable: Durable = SyncFuture()

        def follow(done: asyncio.Future[StateReply]) -> None:
            if not _is_persisted(done, durable):
                self.end()
                return
            if change.start_offset > self.durable_start_offset:
                self.durable_start_offset = change.start_offset
                self._on_durable(self)
            if change.archiving and self.is_serving:
                self._write_dead_letters(self, change.archiving)

        written.add_done_callback(follow)
        self._wake()
        return durable

    # Waiting

    def wait_for_more(self, wake: Wake) -> None:
        """Call `wake` once, when there may be more to acquire."""
        self._waiting[wake] = None

    def stop_waiting(self, wake: Wake) -> None:
        self._waiting.pop(wake, None)

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for wake in waiting:
            wake()

    def _set_timer(self) -> None:
        deadline_ms = self.records.next_deadline_ms
        if deadline_ms == self._timer_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_ms = deadline_ms
        if deadline_ms is not None and self.is_serving:
            delay_s = max(deadline_ms - self._now_ms(), 0) / 1000
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._tick)

    def _tick(self) -> None:
        self._timer = self._timer_ms = None
        if self.is_serving:
            self._write(self.records.tick(self._now_ms()))
            self._wake()  # Records that waited for their redelivery may be acquired now.


def _is_persisted(done: asyncio.Future[StateReply], durable: Durable) -> bool:
    """Settle a change as its persister has."""
    if done.cancelled():
        durable.cancel()
        return False
    if (error := done.result().error) is not ErrorCode.NONE:
        durable.settle_with_fault(StateNotWrittenError(error))
        durable.exception()  # Whoever released records does not look.
        return False
    durable.settle(None)
    return True


def _holding(walked: Sequence[tuple[BatchHeader, memoryview]], acquired: Sequence[AcquiredRange]) -> list[memoryview]:
    """The batches that hold some of the acquired records."""
    views: list[memoryview] = []
    ranges = iter(acquired)
    current = next(ranges, None)
    for header, batch in walked:
        while current is not None and current.last_offset < header.base_offset:
            current = next(ranges, None)
        if current is None:
            break
        if current.first_offset <= header.last_offset:
            views.append(batch)
    return views
