"""Fetch: one read of many partitions, as far as records are there now, and a wait where they are too few.

One response is filled partition by partition, in the order of the request, up to its limit; the first partition with
records gives at least one batch. A fetch that finds fewer bytes than it wants parks until enough has been written, or
its time is up (`parked_fetch`).

Consumers read what is committed, from the leader or from a follower (`follower_fetching`). Followers read to the end of
the log, and the offsets that they fetch from say what they have.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from qanat.broker.replicas.follower_fetching import Readable
from qanat.broker.replicas.parked_fetch import Wake, wait_for_records
from qanat.broker.replicas.replica_selector import NO_REPLICA
from qanat.broker.runtime.cooperative_yield import CooperativeYield
from qanat.log.leader_epochs import EpochEnd
from qanat.log.log_reads import LogRead
from qanat.log.segments.aborted_index import AbortedTransaction
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.model.ids import NO_LEADER_EPOCH, LeaderEpoch, Offset

FEW_PARTITIONS = 200
"""So many are read in one go."""


class Wanted(NamedTuple):
    """The request for one partition; `partition` is the error where there is none."""

    partition: Readable | ErrorCode
    offset: int
    max_bytes: int
    leader_epoch: int
    """The leader epoch that the client knows, or -1."""
    last_fetched_epoch: int = -1
    """The epoch of the record before `offset` in the client's log, or -1."""
    start_offset: int = -1
    """Where a follower's log starts."""
    preferred: int = NO_REPLICA
    """The replica that the consumer should fetch from instead, or -1."""
    is_throttled: bool = False
    """Whether a follower must wait, because it catches up faster than its throttle allows."""
    known_high_watermark: int | None = None
    """The high watermark that a follower knows, where it should learn of a higher one at once."""


@dataclass(slots=True)
class Found:
    """The response of one partition."""

    error: ErrorCode = ErrorCode.NONE
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    read: LogRead | None = None
    aborted: Sequence[AbortedTransaction] | None = None
    size: int = 0
    diverging: EpochEnd | None = None
    """Where the client's log diverges from ours (KIP-595)."""
    preferred: int = NO_REPLICA
    """The replica to fetch from instead (KIP-392), or -1."""


class Fetch:
    """One fetch request: tried once, and again whenever more has been written."""

    def __init__(
        self,
        wanted: Sequence[Wanted],
        max_bytes: int,
        min_bytes: int,
        *,
        is_committed: bool,
        is_follower: bool = False,
    ) -> None:
        self._wanted = wanted
        self._is_follower = is_follower
        self._is_hurried = is_follower and any(one.known_high_watermark is not None for one in wanted)
        self._partitions = [one.partition for one in wanted if not isinstance(one.partition, ErrorCode)]
        self._max_bytes = max_bytes
        self._min_bytes = min_bytes
        self._is_committed = is_committed
        self._readable_bytes = 0
        """The bytes that could be read when `found` was made; waiting counts from there."""
        self.found: list[Found] = []
        self.size = 0
        self.is_cold = False
        self.on_answer: Callable[[], None] | None = None
        """Called once, when `found` is the response."""
        self._has_update = False
        """Whether there is something else than records to send at once."""

    @property
    def is_enough(self) -> bool:
        return (
            self.size >= self._min_bytes
            or self._has_update
            or any(found.error or found.diverging for found in self.found)
        )

    def try_now(self) -> bool:
        """Read everything that is in memory; False where a partition would have to wait for the disk."""
        self._begin()
        for wanted in self._wanted:
            self.found.append(self._read_one(wanted))
        return not self.is_cold

    def _begin(self) -> None:
        self.found, self.size, self.is_cold, self._has_update = [], 0, False, False
        self._readable_bytes = self._readable()

    def _readable(self) -> int:
        if self._is_follower:
            return self._written()
        return sum(partition.readable_bytes for partition in self._partitions)

    def _written(self) -> int:
        return sum(partition.written_bytes for partition in self._partitions)

    def _read_one(self, wanted: Wanted) -> Found:
        found, end_offset = self._bounds(wanted)
        if end_offset is None:
            return found
        assert not isinstance(wanted.partition, ErrorCode)
        try:
            read = (
                wanted.partition.read_now(wanted.offset, self._room(wanted), end_offset) if self._has_room() else None
            )
        except QanatError as fault:
            return Found(fault.code, log_start_offset=found.log_start_offset if self._is_follower else -1)
        if read is None or not self._is_complete(wanted, read):
            self.is_cold = self.is_cold or self._has_room()
            return found
        return self._take(wanted, found, read)

    @property
    def is_long(self) -> bool:
        """Whether reading all partitions at once would delay other requests."""
        return len(self._wanted) > FEW_PARTITIONS

    async def read_in_turns(self, yielder: CooperativeYield) -> None:
        """The same, waiting for the disk where need be, with cooperative yields."""
        self._begin()
        async for wanted in yielder.over(self._wanted):
            found, end_offset = self._bounds(wanted)
            if end_offset is not None and self._has_room():
                assert not isinstance(wanted.partition, ErrorCode)
                try:
                    read = await wanted.partition.read(wanted.offset, self._room(wanted), end_offset)
                    if not self._is_complete(wanted, read):
                        await wanted.partition.load_aborted(wanted.offset, read.next_offset)
                    found = self._take(wanted, found, read)
                except QanatError as fault:
                    found = Found(fault.code, log_start_offset=found.log_start_offset if self._is_follower else -1)
            self.found.append(found)

    def _is_complete(self, wanted: Wanted, read: LogRead) -> bool:
        """Whether everything that goes with a read is in memory: for read_committed, the aborted transactions."""
        assert not isinstance(wanted.partition, ErrorCode)
        return not (self._is_committed and read.slices) or wanted.partition.has_aborted_in_memory(
            wanted.offset, read.next_offset
        )

    def _has_room(self) -> bool:
        return self.size < self._max_bytes or self.size == 0

    def _room(self, wanted: Wanted) -> int:
        """The first records come whatever their size; later ones only as far as they fit."""
        return max(min(wanted.max_bytes, self._max_bytes - self.size), 0)

    def _bounds(self, wanted: Wanted) -> tuple[Found, int | None]:
        """The response before reading, and up to where to read; None where there is nothing to read."""
        partition = wanted.partition
        if isinstance(partition, ErrorCode):
            return Found(partition, aborted=()), None
        if partition.is_retired:
            return Found(partition.why_retired), None
        if wanted.leader_epoch >= 0 and wanted.leader_epoch != partition.leader_epoch:
            return Found(leader_epoch_error(wanted.leader_epoch, partition)), None
        log = partition.log
        found = Found(ErrorCode.NONE, log.high_watermark, log.last_stable_offset, log.log_start_offset)
        found.aborted = () if self._is_committed else None
        if wanted.preferred >= 0:
            found.preferred, self._has_update = wanted.preferred, True
            return found, None
        if wanted.known_high_watermark is not None and found.high_watermark > wanted.known_high_watermark:
            self._has_update = True
        if diverges(wanted, partition):
            found.diverging = _parting(wanted, partition, is_follower=self._is_follower)
            return found if found.diverging else Found(ErrorCode.OFFSET_OUT_OF_RANGE), None
        if self._is_follower:
            return found, None if wanted.is_throttled else log.end_offset
        return found, found.last_stable_offset if self._is_committed else found.high_watermark

    def _take(self, wanted: Wanted, found: Found, read: LogRead) -> Found:
        assert not isinstance(wanted.partition, ErrorCode)
        size = read.size
        if size > self._max_bytes - self.size and self.size > 0:
            return found  # One batch, larger than the room left: the next request gets it.
        found.read, found.size = read, size
        self.size += size
        if self._is_committed and size:
            found.aborted = wanted.partition.log.aborted_transactions(wanted.offset, read.next_offset)
        return found

    # Waiting

    async def wait(self, max_wait_s: float) -> None:
        """Return when there is enough, or the time is up; `found` is what there is then."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + max_wait_s
        while not self.is_enough and loop.time() < deadline:
            if not self._has_changed():
                await wait_for_records(self, deadline - loop.time())
            if self.is_long or not self.try_now():
                await self.read_in_turns(CooperativeYield())

    def wait_for_more(self, wake: Wake) -> None:
        """Have `wake` called when more has been written."""
        for partition in self._partitions:
            partition.wait_for_more(wake, is_follower=self._is_follower)
            if self._is_hurried:
                partition.wait_for_more(wake)

    def stop_waiting(self, wake: Wake) -> None:
        for partition in self._partitions:
            partition.stop_waiting(wake)

    def is_due(self) -> bool:
        """Whether enough has been written since the last read for another one."""
        needed_bytes = self._readable_bytes + self._min_bytes - self.size
        return self._is_over() or self._written() >= needed_bytes or self._has_moved()

    def _has_changed(self) -> bool:
        """Whether something has happened since the read that would wake us if it happened now."""
        return self._readable() != self._readable_bytes or self._is_over() or self._has_moved()

    def _is_over(self) -> bool:
        return any(partition.is_retired for partition in self._partitions)

    def _has_moved(self) -> bool:
        """Whether a follower that should learn of every high watermark does not know this one."""
        return self._is_hurried and any(
            not isinstance(one.partition, ErrorCode) and one.partition.log.high_watermark > found.high_watermark
            for one, found in zip(self._wanted, self.found, strict=True)
        )


def leader_epoch_error(known_epoch: int, partition: Readable) -> ErrorCode:
    """The error for a client that knows a leader epoch other than the partition's; -1 knows none."""
    if known_epoch < 0 or known_epoch == partition.leader_epoch:
        return ErrorCode.NONE
    is_old = known_epoch < partition.leader_epoch
    return ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH


def diverges(wanted: Wanted, partition: Readable) -> bool:
    """Whether the client's log is not a prefix of ours."""
    if wanted.last_fetched_epoch < 0:
        return False
    end = partition.log.end_of_epoch(LeaderEpoch(wanted.last_fetched_epoch))
    if end.end_offset < 0 or end.epoch < wanted.last_fetched_epoch or end.end_offset < wanted.offset:
        return True
    return NO_LEADER_EPOCH < _epoch_before(wanted, partition) < wanted.last_fetched_epoch


def _parting(wanted: Wanted, partition: Readable, *, is_follower: bool) -> EpochEnd | None:
    """Where a log that is not a prefix of ours diverges from it; None where that is not known.

    A follower whose last record is of a later epoch than ours has a damaged header: no leader of that epoch wrote it.
    """
    epoch = LeaderEpoch(wanted.last_fetched_epoch)
    if is_follower and (ours := _epoch_before(wanted, partition)) > NO_LEADER_EPOCH:
        epoch = min(epoch, ours)
    end = partition.log.end_of_epoch(epoch)
    return None if end.epoch < 0 or end.end_offset < 0 else end


def _epoch_before(wanted: Wanted, partition: Readable) -> LeaderEpoch:
    """The epoch of the record before the requested offset."""
    return partition.log.epochs.epoch_at(Offset(wanted.offset - 1))
