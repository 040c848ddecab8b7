"""Group commit: one fsync acknowledges everything that was appended before it began.

While the disk works, appends continue and wait for the next round. Unflushed
bytes are bounded (`log.unflushed.bytes.max`): a long queue in front of one fsync
would stall every other write.

Rounds are callbacks, not a task: from the end of an fsync to the answers it releases
there is one iteration of the loop, and a client that waits for each answer waits for all of them.

Where one client has sent all requests for many rounds, the loop itself may wait
for the disk (`fsync_thread`): no other client loses by it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress

from qanat.log.directory_state import DirectoryState
from qanat.log.flush_state import FlushJob, begin_flush
from qanat.log.partition_log import PartitionLog
from qanat.log.runtime.sync_future import SyncFuture
from qanat.model.errors import DiskFullError, StorageError
from qanat.telemetry.log_counters import LogCounters

Postponed = dict[FlushJob, DiskFullError]
"""Jobs of a round that found no room for a small file; trying them again loses nothing."""
Launch = Callable[[list[FlushJob], Callable[[Postponed | None, BaseException | None], None], bool], None]
"""Runs jobs off the loop, then calls back on it with the postponed jobs, or with the error.
Or does both at once, where there is one client only."""
SOLE_CLIENT_ROUNDS = 100
"""So many rounds in a row with one request each, and there is only one client: some 15 ms."""
_Waiters = deque[tuple[int, SyncFuture[None]]]


class GroupCommit:
    """Flushes the logs of one directory, in each round all that were requested."""

    def __init__(
        self,
        state: DirectoryState,
        unflushed_bytes_max: int,
        launch: Launch,
        on_flushed: Callable[[PartitionLog], None],
        counters: LogCounters,
        requests: Callable[[], int],
    ) -> None:
        """`requests` returns how many requests of any kind were handled so far."""
        self._requests = requests
        self._requests_before = 0
        """How many there were when the last round began."""
        self._sole_client_rounds = 0
        """How many rounds in a row had a single request."""
        self._on_flushed = on_flushed
        self._state = state
        self._unflushed_bytes_max = unflushed_bytes_max
        self._launch = launch
        self._counters = counters
        self._requested: dict[PartitionLog, None] = {}
        self._waiting: dict[PartitionLog, _Waiters] = {}
        self._waiting_for_room: deque[asyncio.Future[None]] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        """Set while it is started. Looking up the running loop is a system call, and rounds are many."""
        self._is_closing = False
        self._is_begun = False
        """Whether a round is under way, or about to begin."""
        self._over: asyncio.Future[None] | None = None
        """Set where a caller waits for the end of the last round."""
        self._bug: BaseException | None = None

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.wake()

    def request_flush(self, log: PartitionLog) -> None:
        """Include this log in the next round."""
        self._requested[log] = None
        self.wake()

    async def wait(self, log: PartitionLog, end_offset: int) -> None:
        """Return once everything below `end_offset` is on disk; raise where that can no longer be known."""
        flushed = self.when(log, end_offset)
        if flushed is not None:
            await flushed

    def when(self, log: PartitionLog, end_offset: int) -> SyncFuture[None] | None:
        """A future for the same; None where everything below `end_offset` is on disk already."""
        if log.flushed_offset < end_offset:
            return self._next_round(log, end_offset)
        log.state.require_working()
        return None

    async def settle(self, log: PartitionLog) -> None:
        """Return once a log has nothing unflushed, unsealed or under way. Nothing may be appended meanwhile."""
        while log.is_flushing or log.closed or log.flushed_offset < log.end_offset:
            await self._next_round(log, log.end_offset)

    async def idle(self, log: PartitionLog) -> None:
        """Return once no flush of a log is under way; none may be requested any more."""
        while log.is_flushing:
            self._state.require_working()
            over: SyncFuture[None] = SyncFuture()
            self._waiting.setdefault(log, deque()).append((0, over))
            with suppress(DiskFullError):
                await over

    def _next_round(self, log: PartitionLog, end_offset: int) -> SyncFuture[None]:
        log.state.require_working()
        self._require_open()
        if end_offset > log.end_offset:
            raise StorageError(f"{log.topic_partition} ends at {log.end_offset}: the records after that were cut off")
        flushed: SyncFuture[None] = SyncFuture()
        self._waiting.setdefault(log, deque()).append((end_offset, flushed))
        self.request_flush(log)
        return flushed

    async def wait_for_room(self, unflushed: Callable[[], Iterable[PartitionLog]]) -> None:
        """Return once there are few enough unflushed bytes. `unflushed` names the logs that hold some of them."""
        while not self.has_room() and self._state.failure is None:
            self._require_open()
            for log in unflushed():
                self.request_flush(log)
            room = asyncio.get_running_loop().create_future()
            self._waiting_for_room.append(room)
            await room

    def waiting(self) -> list[tuple[PartitionLog, int]]:
        """The logs whose flush is waited for, and by how many."""
        return [(log, len(waiters)) for log, waiters in self._waiting.items()]

    @property
    def without_room(self) -> int:
        """How many wait for unflushed bytes to become fewer."""
        return len(self._waiting_for_room)

    def has_room(self) -> bool:
        return self._state.unflushed_bytes <= self._unflushed_bytes_max

    def abandon(self, log: PartitionLog) -> None:
        """Fail everything that waits for a log that was deleted."""
        self._requested.pop(log, None)
        for _, flushed in self._waiting.pop(log, ()):
            flushed.settle_with_fault(log.state.failed_error())
        _wake_all(self._waiting_for_room)

    def wake(self) -> None:
        """Begin a round after this iteration, so that all its appends share the round.

        Or let waiting callers see a failure that occurred elsewhere.
        """
        if self._loop is not None and not self._is_begun:
            self._is_begun = True
            self._loop.call_soon(self._begin)

    # A round

    def _begin(self) -> None:
        try:
            self._begin_round(is_after_rest=True)
        except BaseException as bug:  # noqa: BLE001 - no caller may wait for a round that never comes
            self._die(bug)

    def _begin_round(self, *, is_after_rest: bool = False) -> None:
        """Begin after a rest, or at the end of another round: there a round must not end before it has begun."""
        if self._state.failure is not None:
            self._fail()
        if self._state.failure is not None or not self._requested:
            self._rest()
            return
        logs = list(self._requested)
        self._requested.clear()
        jobs = {log: job for log in logs if (job := begin_flush(log)) is not None}
        assert self._loop is not None, "rounds begin after the start"
        loop = self._loop
        began = loop.time()

        def end(postponed: Postponed | None, fault: BaseException | None) -> None:
            try:
                self._end_round(logs, jobs, loop.time() - began, postponed, fault)
            except BaseException as bug:  # noqa: BLE001 - as above
                self._die(bug)

        if jobs:
            has_sole_client = self._has_sole_client(logs)
            self._launch(list(jobs.values()), end, is_after_rest and has_sole_client)
        else:
            loop.call_soon(end, {}, None)

    def _has_sole_client(self, logs: list[PartitionLog]) -> bool:
        """Whether one request waits for the disk, and the same was true of many rounds before."""
        asked = self._requests()
        new, self._requests_before = asked - self._requests_before, asked
        waiters = self._waiting.get(logs[0], ())
        if new == 1 and len(logs) == len(self._waiting) == len(waiters) == 1:
            self._sole_client_rounds += 1
        else:
            self._sole_client_rounds = 0
        return self._sole_client_rounds > SOLE_CLIENT_ROUNDS

    def _end_round(
        self,
        logs: list[PartitionLog],
        jobs: dict[PartitionLog, FlushJob],
        took_s: float,
        postponed: Postponed | None,
        fault: BaseException | None,
    ) -> None:
        if isinstance(fault, StorageError):
            self._state.fail(fault)
        elif fault is not None:
            raise fault
        # Some of a failed round may be on disk; nothing is acknowledged all the same.
        if self._state.failure is None:
            if jobs:
                self._counters.flush_s.observe(took_s)
            self._acknowledge(logs, jobs, postponed or {})
        self._begin_round()

    def _acknowledge(self, logs: list[PartitionLog], jobs: dict[PartitionLog, FlushJob], postponed: Postponed) -> None:
        acknowledged = 0
        for log in logs:
            job = jobs.get(log)
            if job is not None and job in postponed:
                job.postpone()
                self._refuse(log, postponed[job])
                continue
            if job is not None:
                job.finish()
                self._counters.flushes += 1
                self._on_flushed(log)
            acknowledged += self._release(log)
        if acknowledged:
            self._counters.flush_acknowledged.observe(acknowledged)
        if not postponed:
            _wake_all(self._waiting_for_room)

    def _rest(self) -> None:
        self._is_begun = False
        if self._over is not None and not self._over.done():
            self._over.set_result(None)

    def _die(self, bug: BaseException) -> None:
        self._bug = bug
        self._state.fail(StorageError("group commit stopped unexpectedly"))
        self._fail()
        self._rest()

    def _refuse(self, log: PartitionLog, error: DiskFullError) -> None:
        """Fail what waits for a log, or for room, because the disk is full."""
        for _, flushed in self._waiting.pop(log, ()):
            flushed.settle_with_fault(DiskFullError(str(error)))
        while self._waiting_for_room:
            room = self._waiting_for_room.popleft()
            if not room.done():
                room.set_exception(DiskFullError(str(error)))

    def _release(self, log: PartitionLog) -> int:
        """Wake the waiters whose records are on disk, and return how many; request another round for the others."""
        waiters = self._waiting.get(log)
        count = 0
        while waiters and waiters[0][0] <= log.flushed_offset:
            _, flushed = waiters.popleft()
            count += 1
            flushed.settle(None)
        if waiters:
            self.request_flush(log)
        else:
            self._waiting.pop(log, None)
        return count

    def _fail(self) -> None:
        for log in list(self._waiting):
            for _, flushed in self._waiting.pop(log):
                flushed.settle_with_fault(self._state.failed_error())
        _wake_all(self._waiting_for_room)

    def _require_open(self) -> None:
        if self._is_closing:
            raise StorageError("the data directory is being closed: try again when the broker is back")

    def close(self) -> None:
        """Refuse new waiters from now on."""
        self._is_closing = True

    async def closed(self) -> None:
        """Return after the last round; raises the bug that ended group commit, if one did."""
        self.close()
        while self._is_begun:
            self._over = asyncio.get_running_loop().create_future()
            await self._over
        self._loop = None
        if self._waiting or self._waiting_for_room:
            self._state.fail(StorageError("group commit stopped unexpectedly"))
            self._fail()
        if self._bug is not None:
            raise self._bug


def _wake_all(waiting: deque[asyncio.Future[None]]) -> None:
    while waiting:
        future = waiting.popleft()
        if not future.done():
            future.set_result(None)
