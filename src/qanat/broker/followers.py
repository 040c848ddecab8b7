"""Copies of partitions that others lead, kept up by fetching: one connection per leader, many partitions a request.

The fetch is the ordinary one, with our name in it (`replica_state`), in a session of its own, so that only partitions
that moved are named. What came is appended and flushed before the next question, which says by its offsets
what we have on disk. What to do with an answer is decided in `replication.follower`.

Rule 1: an answer counts only for a copy that is followed as it was when the question was sent: same leader, same epoch.
Rule 2: a partition that cannot go on is left out for a while and holds up no other.
Rule 3: nobody leads a copy that is being cut (`busy`).
Rule 4: who catches up waits for its throttle and asks for little at once; who is in sync waits for nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import ceil
from typing import TYPE_CHECKING

from qanat.broker.follower_session import FollowerSession
from qanat.broker.hosting import Copy
from qanat.broker.unwaited import abandon
from qanat.connection.deadline import Deadline
from qanat.connection.faults import UnreachableError, error_code
from qanat.connection.link import Link
from qanat.log.leader_epochs import EpochEnd
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.model.ids import LeaderEpoch, TopicPartition
from qanat.replication.follower import Cut, Epoch, StartAt, Take, Wait, next_step
from qanat.telemetry.events import event as tell
from qanat.wire.kafka.messages.fetch import FetchResponse, PartitionData, ReplicaState
from qanat.wire.kafka.registry import ApiKey

if TYPE_CHECKING:
    from qanat.broker.broker import Broker

_VERSION = 17
"""Of Fetch: by topic id, with the broker's epoch."""
_CALL_S = 10.0
"""How long a leader may be silent beyond what it was allowed to wait; then another connection is tried."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0
_FIRST_LEFT_OUT_S, _LEFT_OUT_S = 0.01, 0.2
"""How long a partition is left out whose leader says something else than records, the first time and at most. Whoever
is elected often hears of it some milliseconds later than those that follow it, and writers wait for both."""
_TURN_S = 0.05
"""Copies that are left out for longer have their turns at such times."""
_ROWS_AT_ONCE = 50
_IDLE_FACTOR = 4
"""So many times longer may the next answer take where the last one said nothing new: asking about thousands of
partitions costs both sides, and whatever is written is told at once."""
_CATCHING_UP_BYTES = 2 * 1024 * 1024
"""Of one answer, for all copies together that catch up beside others that are in sync."""
_SHARE_BYTES = 64 * 1024
"""And for each of them, however many there are."""
_TOLD_AT_ONCE = 10
_MORE_TO_COME_S = 0.01
"""How long to wait for what else is to be followed, before an answer that may take longer is given up."""


class FollowedLeaders:
    """Everything that we follow, by leader."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._leaders: dict[int, _FollowedLeader] = {}
        self.copies: dict[TopicPartition, Copy] = {}
        self.busy: dict[TopicPartition, asyncio.Future[None]] = {}
        """Copies that are being cut, with when that will be over."""
        self._is_closed = False

    def follow(self, copy: Copy) -> None:
        """Keep a copy up with its leader from now on, if it has one."""
        if self.copies.get(copy.at) == copy or self._is_closed:
            return
        self.leave(copy.at)
        self.copies[copy.at] = copy
        if copy.leader < 0 or copy.leader == self._broker.node_id:
            return  # Nobody leads, or it is not yet settled who does.
        leader = self._leaders.get(copy.leader)
        if leader is None:
            leader = self._leaders[copy.leader] = _FollowedLeader(self._broker, copy.leader, self.busy)
        leader.add(copy)

    def leave(self, at: TopicPartition) -> None:
        copy = self.copies.pop(at, None)
        self._broker.nearby_reads.left(at)
        if copy is not None and (leader := self._leaders.get(copy.leader)) is not None:
            leader.remove(at)

    async def close(self) -> None:
        """Follow nobody any more."""
        self._is_closed = True
        await asyncio.gather(*(leader.close() for leader in self._leaders.values()))


class _FollowedLeader:
    """One broker and all that we follow of it."""

    def __init__(self, broker: Broker, node_id: int, busy: dict[TopicPartition, asyncio.Future[None]]) -> None:
        self._broker = broker
        self._node_id = node_id
        self._busy = busy
        self._copies: dict[TopicPartition, Copy] = {}
        self._left_out: dict[TopicPartition, float] = {}
        """Until when, by the loop's clock."""
        self._pauses_s: dict[TopicPartition, float] = {}
        """How long they are left out the next time, where nothing has come of them since the last."""
        self._behind: dict[TopicPartition, None] = {}
        """Copies that lack something committed, as far as we know: they may be throttled."""
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._session = FollowerSession()
        self._is_idle = False
        """Whether the last answer said nothing new of any copy."""

    def add(self, copy: Copy) -> None:
        self._copies[copy.at] = copy
        self._behind[copy.at] = None
        self._left_out.pop(copy.at, None)
        self._pauses_s.pop(copy.at, None)
        self._changed.set()
        if self._task is None or self._task.done():
            self._task = self._broker.park(self._run())

    def remove(self, at: TopicPartition) -> None:
        self._copies.pop(at, None)
        self._behind.pop(at, None)
        self._left_out.pop(at, None)
        self._pauses_s.pop(at, None)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        """Follow until there is nothing left to follow."""
        pause_s, is_told = _FIRST_PAUSE_S, False
        while self._copies:
            try:
                link = await self._open()
            except QanatError as fault:
                self._broker.failure_detection.lost(self._node_id)
                if not is_told:
                    tell("leader cannot be reached", level="warning", leader=self._node_id, reason=str(fault))
                is_told = True
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
                continue
            if is_told:
                tell("leader can be reached again", leader=self._node_id)
            pause_s, is_told = _FIRST_PAUSE_S, False
            try:
                self._session = FollowerSession()
                while self._copies:
                    await self._ask(link)
            except QanatError as fault:
                tell("connection to a leader is lost", level="debug", leader=self._node_id, reason=str(fault))
            finally:
                await link.close()

    async def _open(self) -> Link:
        host, port = self._broker.address_of(self._node_id)
        return await Link.open(host, port, f"qanat-broker-{self._broker.node_id}", Deadline.after(_CALL_S))

    async def _ask(self, link: Link) -> None:
        """One question and what comes of it."""
        copies = self._ready()
        if not copies:
            self._changed.clear()
            try:
                async with asyncio.timeout(self._until_next_s()):
                    await self._changed.wait()
            except TimeoutError:
                pass
            return
        settings = self._broker.settings
        request = self._session.request(copies, self._at_once(copies))
        request.replica_state = ReplicaState(self._broker.node_id, self._broker.broker_epoch)
        request.max_wait_ms = self._longest_wait_ms()
        request.min_bytes = 1
        request.max_bytes = settings.replica_fetch_response_max_bytes
        deadline = Deadline.after(request.max_wait_ms / 1000 + _CALL_S)
        self._changed.clear()
        asking = asyncio.ensure_future(link.call(ApiKey.FETCH, request, deadline, at_most=_VERSION))
        response = await self._unless_changed(asking)
        if response is None:
            self._session = FollowerSession()
            await link.close()
            raise UnreachableError("asked anew: there is more to follow")
        if not self._session.answered(response):
            if response.error_code not in (
                ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
                ErrorCode.INVALID_FETCH_SESSION_EPOCH,
            ):
                await asyncio.sleep(_LEFT_OUT_S)
            return
        self._is_idle = not response.responses
        await self._take_all(response, copies)

    def _longest_wait_ms(self) -> int:
        """How long the leader may take. Who is silent for long looks like one that has fallen behind; and copies that
        are left out have their turn when their time is over."""
        settings = self._broker.settings
        usual_ms = settings.replica_fetch_wait_max_ms
        idle_ms = min(_IDLE_FACTOR * usual_ms, settings.replica_lag_time_max_ms // _IDLE_FACTOR)
        longest_ms = max(usual_ms, idle_ms) if self._is_idle else usual_ms
        return min(longest_ms, ceil(self._until_next_s() * 1000)) if self._left_out else longest_ms

    def _until_next_s(self) -> float:
        """How long until a copy that is left out has its turn; where there is none, until to look again."""
        now = asyncio.get_running_loop().time()
        return max(min(self._left_out.values(), default=now + _LEFT_OUT_S) - now, 0.0)

    async def _unless_changed(self, asking: asyncio.Future[FetchResponse]) -> FetchResponse | None:
        """The answer; None where something new is to be followed meanwhile, which must not wait for it."""
        changed = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait({asking, changed}, return_when=asyncio.FIRST_COMPLETED)  # type: ignore[type-var]
            if not asking.done():
                await asyncio.wait([asking], timeout=_MORE_TO_COME_S)
            return asking.result() if asking.done() else None
        finally:
            abandon(changed, asking)

    def _ready(self) -> dict[TopicPartition, Copy]:
        now = asyncio.get_running_loop().time()
        for at in [at for at, until in self._left_out.items() if until <= now]:
            del self._left_out[at]
        for at, copy in self._copies.items():
            if at not in self._left_out and at not in self._busy and not _is_settled(copy):
                # Where a flush found no room and was put off, nobody else asks for another.
                self._broker.runtime.flush_soon(copy.log)
                self._leave_out_briefly(at)
        for at in [at for at in self._broker.replica_faults.damaged if at in self._copies]:
            if at not in self._left_out and at not in self._busy and not self._repair(self._copies[at]):
                self._leave_out_briefly(at)
        return {
            at: copy
            for at, copy in self._copies.items()
            if at not in self._left_out
            and at not in self._busy
            and not (at in self._behind and self._broker.throttles.holds_back(at))
        }

    def _at_once(self, copies: dict[TopicPartition, Copy]) -> Callable[[TopicPartition], int]:
        """How much of each copy to ask for: whoever catches up leaves room for those that are in sync."""
        most = self._broker.settings.replica_fetch_max_bytes
        behind = sum(at in copies for at in self._behind)
        if not 0 < behind < len(copies):
            return lambda at: most
        share = min(max(_CATCHING_UP_BYTES // behind, _SHARE_BYTES), most)
        return lambda at: share if at in self._behind else most

    async def _take_all(self, response: FetchResponse, asked: dict[TopicPartition, Copy]) -> None:
        by_id = {(copy.topic_id, copy.at.partition): copy for copy in asked.values()}
        flushes: dict[TopicPartition, asyncio.Future[None]] = {}
        count = 0
        for topic in response.responses:
            for row in topic.partitions:
                copy = by_id.get((bytes(topic.topic_id), row.partition_index))
                if copy is not None and self._copies.get(copy.at) is copy:
                    try:
                        if (flushed := self._take(copy, row)) is not None:
                            flushes[copy.at] = flushed
                    except QanatError as fault:
                        self._leave_out(copy, str(fault))
                count += 1
                if count % _ROWS_AT_ONCE == 0:
                    await asyncio.sleep(0)
        for at, flushed in flushes.items():
            try:
                await flushed
            except QanatError as fault:
                if at in self._copies:
                    self._leave_out(self._copies[at], str(fault))

    def _take(self, copy: Copy, row: PartitionData) -> asyncio.Future[None] | None:
        log = copy.log
        diverging = own = None
        if row.diverging_epoch is not None and row.diverging_epoch.end_offset >= 0:
            diverging = Epoch(row.diverging_epoch.epoch, row.diverging_epoch.end_offset)
            own = _as_epoch(log.end_of_epoch(LeaderEpoch(diverging.epoch)))
        step = next_step(
            error_code(row.error_code), diverging, own, row.log_start_offset, log.log_start_offset, log.end_offset
        )
        match step:
            case Take():
                return self._append(copy, row)
            case Cut(end_offset) if end_offset < log.end_offset:
                tell(
                    "copy cut back to its leader's",
                    partition=str(copy.at),
                    at=end_offset,
                    records=log.end_offset - end_offset,
                    leader=copy.leader,
                    leader_epoch=copy.leader_epoch,
                )
                self._cut(copy, lambda: self._broker.runtime.truncate(log, end_offset))
            case StartAt(offset):
                tell("copy begun anew: its leader starts later", partition=str(copy.at), at=offset)
                self._cut(copy, lambda: self._broker.runtime.restart(log, offset))
            case Cut():
                self._leave_out(copy, f"the leader wants a cut at {step.end_offset}, which is behind our end")
            case Wait():
                self._leave_out_briefly(copy.at)
        return None

    def _repair(self, copy: Copy) -> bool:
        """Cut a damaged copy back to what is sound, to be fetched again; False where its time has not come.

        Of a compacted topic nothing stays: where the leader has dropped a tombstone, what it deleted would come back.
        """
        log, state = copy.log, self._broker.hosting.state_of(copy.at)
        if state is None or self._broker.node_id not in state.damaged or state.leader_epoch != copy.leader_epoch:
            return False
        damage = log.damage
        if not damage:
            self._broker.replica_faults.repaired(copy.at)
            return True
        first_damaged = min(one.first_offset for one in damage)
        first_offset = log.log_start_offset if log.settings.is_compacted else first_damaged
        tell(
            "damaged replica is fetched from its leader again",
            level="warning",
            partition=str(copy.at),
            from_offset=max(first_offset, log.log_start_offset),
            damaged=[f"{one.first_offset} to {one.next_offset - 1}" for one in damage[:_TOLD_AT_ONCE]],
            leader=copy.leader,
        )
        runtime = self._broker.runtime

        async def cut() -> None:
            if first_offset > log.log_start_offset:
                await runtime.truncate(log, first_offset)
            if first_offset <= log.log_start_offset or log.damage:
                await runtime.restart(log, log.log_start_offset)
            assert not log.damage, "an empty log has nothing that could be damaged"
            self._broker.replica_faults.repaired(copy.at)

        self._cut(copy, cut)
        return True

    def _append(self, copy: Copy, row: PartitionData) -> asyncio.Future[None] | None:
        log, flushed, size = copy.log, None, 0
        if self._pauses_s:
            self._pauses_s.pop(copy.at, None)
        records = row.records
        if records is not None and len(records):
            assert isinstance(records, memoryview | bytes | bytearray), "a message that was read holds its bytes"
            self._broker.runtime.requests_handled += 1
            flushed = self._broker.runtime.append_replicated(log, records)
            size = len(records)
            self._broker.counters.replicated_bytes += size
            if copy.at in self._behind:
                self._broker.throttles.took(copy.at, size)
        if row.high_watermark > log.end_offset:
            self._behind[copy.at] = None
        else:
            self._behind.pop(copy.at, None)
        log.advance_high_watermark(min(row.high_watermark, log.end_offset))
        if log.log_start_offset < row.log_start_offset <= log.high_watermark:
            log.advance_log_start(row.log_start_offset)
        self._broker.nearby_reads.copied(copy.at, size)
        return flushed

    def _cut(self, copy: Copy, act: Callable[[], object]) -> None:
        """Cut a copy beside everything else; until that is done nobody asks for it and nobody leads it."""
        self._broker.nearby_reads.left(copy.at)
        over = self._busy[copy.at] = asyncio.get_running_loop().create_future()

        async def cut() -> None:
            try:
                await act()  # type: ignore[misc]
            except QanatError as fault:
                self._leave_out(copy, str(fault))
            finally:
                del self._busy[copy.at]
                over.set_result(None)
                self._changed.set()

        self._broker.park(cut())

    def _leave_out(self, copy: Copy, reason: str) -> None:
        self._left_out[copy.at] = asyncio.get_running_loop().time() + _LEFT_OUT_S
        tell("copy cannot be kept up", level="error", partition=str(copy.at), leader=copy.leader, reason=reason)

    def _leave_out_briefly(self, at: TopicPartition) -> None:
        """What is in the way is probably over soon; if not, ask more and more seldom."""
        pause_s = self._pauses_s.get(at, _FIRST_LEFT_OUT_S)
        until = asyncio.get_running_loop().time() + pause_s
        # Many have their turn together: each turn cuts the leader's wait for all others short.
        self._left_out[at] = until if pause_s < _TURN_S else ceil(until / _TURN_S) * _TURN_S
        self._pauses_s[at] = min(2 * pause_s, _LEFT_OUT_S)


def _is_settled(copy: Copy) -> bool:
    """Whether everything that we have of a topic that is to be on disk is there: only that may be told.

    What a worker was writing when we stopped leading is taken back first.
    """
    log = copy.log
    return (
        log.job_in_hand != "truncation"
        and not log.is_appending
        and (not log.settings.is_synced or log.flushed_offset >= log.end_offset)
    )


def _as_epoch(end: EpochEnd) -> Epoch:
    return Epoch(end.epoch, end.end_offset)
