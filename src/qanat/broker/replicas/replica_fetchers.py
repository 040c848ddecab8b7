"""Replica fetchers: followers fetch from their leaders, one connection per leader, many partitions a request.

The request is the ordinary Fetch with our node id in it (`replica_state`), in a session of its own, so that it names
only partitions that moved. Records are appended and flushed before the next request, whose offsets say what we have on
disk. `replication.follower` decides what to do with a response.

Rule 1: a response counts only for a replica that is followed as it was when the request was sent: same leader, same
        epoch.
Rule 2: a partition that cannot go on is paused for a while and does not delay any other.
Rule 3: a replica that is being truncated (`truncating`) must not lead.
Rule 4: a replica that catches up waits for its throttle and fetches little at once; a replica in sync never waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import ceil
from typing import Protocol

from qanat.broker.metadata.registration import Membership
from qanat.broker.replicas.follower_fetching import FollowerFetching
from qanat.broker.replicas.local_replicas import FollowerReplica, LocalReplicas
from qanat.broker.replicas.replica_faults import ReplicaFaults
from qanat.broker.replicas.replica_fetch_session import ReplicaFetchSession
from qanat.broker.replicas.replication_throttles import ReplicationThrottles
from qanat.broker.runtime.detached_work import abandon
from qanat.broker.runtime.parked_tasks import TaskOwner
from qanat.broker.runtime.peers import Peers
from qanat.broker.settings.broker_settings import BrokerSettings
from qanat.connection.deadline import Deadline
from qanat.connection.faults import UnreachableError, error_code
from qanat.connection.link import Link
from qanat.log.leader_epochs import EpochEnd
from qanat.log.runtime.log_runtime import LogRuntime
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.model.ids import LeaderEpoch, TopicPartition
from qanat.replication.follower import Append, Epoch, StartAt, Truncate, Wait, next_step
from qanat.telemetry.broker_counters import BrokerCounters
from qanat.telemetry.events import log_event
from qanat.wire.kafka.messages.fetch import FetchResponse, PartitionData, ReplicaState
from qanat.wire.kafka.registry import ApiKey

_VERSION = 17
"""Of Fetch: by topic id, with the broker epoch."""
_CALL_S = 10.0
"""How long a leader may be silent beyond the wait that it was allowed; then we try another connection."""
_FIRST_RECONNECT_S, _LONGEST_RECONNECT_S = 0.05, 1.0
_FIRST_PAUSE_S, _PAUSE_S = 0.01, 0.2
"""How long a partition is paused whose leader sends an error, the first time and at most. A new leader often learns of
its election some milliseconds later than its followers, and producers wait for both."""
_TURN_S = 0.05
"""Replicas that are paused for longer have their turns at multiples of this."""
_ROWS_AT_ONCE = 50
_IDLE_FACTOR = 4
"""How many times longer the next response may take where the last one had no news: a request for thousands of
partitions costs both sides, and the leader answers at once when something is written."""
_CATCHING_UP_BYTES = 2 * 1024 * 1024
"""Of one response, for all replicas together that catch up beside others that are in sync."""
_SHARE_BYTES = 64 * 1024
"""And for each of them, however many there are."""
_RANGES_AT_ONCE = 10
_MORE_TO_COME_S = 0.01
"""How long to wait for more replicas to follow, before a pending request is given up."""


class FetcherHost(TaskOwner, Protocol):
    """The parts of a broker that replica fetchers use."""

    @property
    def node_id(self) -> int: ...

    @property
    def membership(self) -> Membership: ...

    @property
    def settings(self) -> BrokerSettings: ...

    @property
    def runtime(self) -> LogRuntime: ...

    @property
    def peers(self) -> Peers: ...

    @property
    def local_replicas(self) -> LocalReplicas: ...

    @property
    def replica_faults(self) -> ReplicaFaults: ...

    @property
    def follower_fetching(self) -> FollowerFetching: ...

    @property
    def throttles(self) -> ReplicationThrottles: ...

    @property
    def counters(self) -> BrokerCounters: ...


class ReplicaFetchers:
    """All replicas that follow, by leader; `on_unreachable` is called with a leader that cannot be connected to."""

    def __init__(self, host: FetcherHost, on_unreachable: Callable[[int], None]) -> None:
        self._host = host
        self._on_unreachable = on_unreachable
        self._leaders: dict[int, _ReplicaFetcher] = {}
        self.replicas: dict[TopicPartition, FollowerReplica] = {}
        self.truncating: dict[TopicPartition, asyncio.Future[None]] = {}
        """Replicas that are being truncated, each with a future for its end."""
        self._is_closed = False

    def follow(self, replica: FollowerReplica) -> None:
        """Follow the leader of a replica from now on, if it has one."""
        if self.replicas.get(replica.at) == replica or self._is_closed:
            return
        self.leave(replica.at)
        self.replicas[replica.at] = replica
        if replica.leader < 0 or replica.leader == self._host.node_id:
            return  # There is no leader, or it is not settled yet.
        leader = self._leaders.get(replica.leader)
        if leader is None:
            leader = self._leaders[replica.leader] = _ReplicaFetcher(
                self._host, replica.leader, self.truncating, self._on_unreachable
            )
        leader.add(replica)

    def leave(self, at: TopicPartition) -> None:
        replica = self.replicas.pop(at, None)
        self._host.follower_fetching.retire(at)
        if replica is not None and (leader := self._leaders.get(replica.leader)) is not None:
            leader.remove(at)

    async def close(self) -> None:
        """Stop following."""
        self._is_closed = True
        await asyncio.gather(*(leader.close() for leader in self._leaders.values()))


class _ReplicaFetcher:
    """One leader and all replicas that follow it."""

    def __init__(
        self,
        host: FetcherHost,
        node_id: int,
        truncating: dict[TopicPartition, asyncio.Future[None]],
        on_unreachable: Callable[[int], None],
    ) -> None:
        self._host = host
        self._on_unreachable = on_unreachable
        self._node_id = node_id
        self._truncating = truncating
        self._replicas: dict[TopicPartition, FollowerReplica] = {}
        self._paused: dict[TopicPartition, float] = {}
        """Until when, by the loop's clock."""
        self._pauses_s: dict[TopicPartition, float] = {}
        """How long each is paused the next time, where it got no records since the last."""
        self._behind: dict[TopicPartition, None] = {}
        """Replicas that lack committed records, as far as we know: they may be throttled."""
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_idle = False
        """Whether the last response had nothing new for any replica."""

    def add(self, replica: FollowerReplica) -> None:
        self._replicas[replica.at] = replica
        self._behind[replica.at] = None
        self._paused.pop(replica.at, None)
        self._changed.set()
        if self._task is None or self._task.done():
            self._task = self._host.park(self._run())

    def remove(self, at: TopicPartition) -> None:
        self._replicas.pop(at, None)
        self._behind.pop(at, None)
        self._paused.pop(at, None)
        self._pauses_s.pop(at, None)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        """Fetch until no replica is left."""
        pause_s, is_logged = _FIRST_RECONNECT_S, False
        while self._replicas:
            try:
                link = await self._open()
            except QanatError as fault:
                self._on_unreachable(self._node_id)
                if not is_logged:
                    log_event("leader cannot be reached", level="warning", leader=self._node_id, reason=str(fault))
                is_logged = True
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_RECONNECT_S)
                continue
            if is_logged:
                log_event("leader can be reached again", leader=self._node_id)
            pause_s, is_logged = _FIRST_RECONNECT_S, False
            try:
                session = ReplicaFetchSession()
                while self._replicas:
                    await self._fetch(link, session)
            except QanatError as fault:
                log_event("connection to a leader is lost", level="debug", leader=self._node_id, reason=str(fault))
            finally:
                await link.close()

    async def _open(self) -> Link:
        name = f"qanat-broker-{self._host.node_id}"
        return await self._host.peers.open(self._node_id, name, Deadline.after(_CALL_S))

    async def _fetch(self, link: Link, session: ReplicaFetchSession) -> None:
        """One request and its response."""
        replicas = self._ready()
        if not replicas:
            self._changed.clear()
            try:
                async with asyncio.timeout(self._until_next_s()):
                    await self._changed.wait()
            except TimeoutError:
                pass
            return
        settings = self._host.settings
        request = session.request(replicas, self._at_once(replicas))
        request.replica_state = ReplicaState(self._host.node_id, self._host.membership.epoch_in_requests)
        request.max_wait_ms = self._longest_wait_ms()
        request.min_bytes = 1
        request.max_bytes = settings.replica_fetch_response_max_bytes
        deadline = Deadline.after(request.max_wait_ms / 1000 + _CALL_S)
        self._changed.clear()
        fetching = asyncio.ensure_future(link.call(ApiKey.FETCH, request, deadline, at_most=_VERSION))
        response = await self._unless_changed(fetching)
        if response is None:
            await link.close()
            raise UnreachableError("request given up: there are more replicas to follow")
        if not session.note_response(response):
            if response.error_code not in (
                ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
                ErrorCode.INVALID_FETCH_SESSION_EPOCH,
            ):
                await asyncio.sleep(_PAUSE_S)
            return
        self._is_idle = not response.responses
        await self._apply_all(response, replicas)

    def _longest_wait_ms(self) -> int:
        """How long the leader may take. A follower that is silent for long looks as if it had fallen behind; and paused
        replicas have their turn when their pause is over."""
        settings = self._host.settings
        usual_ms = settings.replica_fetch_wait_max_ms
        idle_ms = min(_IDLE_FACTOR * usual_ms, settings.replica_lag_time_max_ms // _IDLE_FACTOR)
        longest_ms = max(usual_ms, idle_ms) if self._is_idle else usual_ms
        return min(longest_ms, ceil(self._until_next_s() * 1000)) if self._paused else longest_ms

    def _until_next_s(self) -> float:
        """How long until a paused replica has its turn; where there is none, until the next look."""
        now = asyncio.get_running_loop().time()
        return max(min(self._paused.values(), default=now + _PAUSE_S) - now, 0.0)

    async def _unless_changed(self, fetching: asyncio.Future[FetchResponse]) -> FetchResponse | None:
        """The response; None where there is a new replica to follow meanwhile, which must not wait for it."""
        changed = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait({fetching, changed}, return_when=asyncio.FIRST_COMPLETED)  # type: ignore[type-var]
            if not fetching.done():
                await asyncio.wait([fetching], timeout=_MORE_TO_COME_S)
            return fetching.result() if fetching.done() else None
        finally:
            abandon(changed, fetching)

    def _ready(self) -> dict[TopicPartition, FollowerReplica]:
        now = asyncio.get_running_loop().time()
        for at in [at for at, until in self._paused.items() if until <= now]:
            del self._paused[at]
        for at, replica in self._replicas.items():
            if at not in self._paused and at not in self._truncating and not _is_settled(replica):
                # Where a flush found no room and was postponed, nothing else starts another.
                self._host.runtime.flush_soon(replica.log)
                self._pause_briefly(at)
        for at in [at for at in self._host.replica_faults.damaged if at in self._replicas]:
            if at not in self._paused and at not in self._truncating and not self._repair(self._replicas[at]):
                self._pause_briefly(at)
        return {
            at: replica
            for at, replica in self._replicas.items()
            if at not in self._paused
            and at not in self._truncating
            and not (at in self._behind and self._host.throttles.must_wait(at))
        }

    def _at_once(self, replicas: dict[TopicPartition, FollowerReplica]) -> Callable[[TopicPartition], int]:
        """How much of each replica to fetch: those that catch up leave room for those that are in sync."""
        most = self._host.settings.replica_fetch_max_bytes
        behind = sum(at in replicas for at in self._behind)
        if not 0 < behind < len(replicas):
            return lambda at: most
        share = min(max(_CATCHING_UP_BYTES // behind, _SHARE_BYTES), most)
        return lambda at: share if at in self._behind else most

    async def _apply_all(self, response: FetchResponse, fetched: dict[TopicPartition, FollowerReplica]) -> None:
        by_id = {(replica.topic_id, replica.at.partition): replica for replica in fetched.values()}
        flushes: dict[TopicPartition, asyncio.Future[None]] = {}
        count = 0
        for topic in response.responses:
            for row in topic.partitions:
                replica = by_id.get((bytes(topic.topic_id), row.partition_index))
                if replica is not None and self._replicas.get(replica.at) is replica:
                    try:
                        if (flushed := self._apply(replica, row)) is not None:
                            flushes[replica.at] = flushed
                    except QanatError as fault:
                        self._pause(replica, str(fault))
                count += 1
                if count % _ROWS_AT_ONCE == 0:
                    await asyncio.sleep(0)
        for at, flushed in flushes.items():
            try:
                await flushed
            except QanatError as fault:
                if at in self._replicas:
                    self._pause(self._replicas[at], str(fault))

    def _apply(self, replica: FollowerReplica, row: PartitionData) -> asyncio.Future[None] | None:
        log = replica.log
        diverging = own = None
        if row.diverging_epoch is not None and row.diverging_epoch.end_offset >= 0:
            diverging = Epoch(row.diverging_epoch.epoch, row.diverging_epoch.end_offset)
            own = _as_epoch(log.end_of_epoch(LeaderEpoch(diverging.epoch)))
        step = next_step(
            error_code(row.error_code), diverging, own, row.log_start_offset, log.log_start_offset, log.end_offset
        )
        match step:
            case Append():
                return self._append(replica, row)
            case Truncate(end_offset) if end_offset < log.end_offset:
                log_event(
                    "replica truncated to its leader's log",
                    partition=str(replica.at),
                    at=end_offset,
                    records=log.end_offset - end_offset,
                    leader=replica.leader,
                    leader_epoch=replica.leader_epoch,
                )
                self._truncate(replica, lambda: self._host.runtime.truncate(log, end_offset))
            case StartAt(offset):
                log_event("replica restarted: its leader's log starts later", partition=str(replica.at), at=offset)
                self._truncate(replica, lambda: self._host.runtime.restart(log, offset))
            case Truncate():
                self._pause(replica, f"the leader wants us to truncate at {step.end_offset}, which is beyond our end")
            case Wait():
                self._pause_briefly(replica.at)
        return None

    def _repair(self, replica: FollowerReplica) -> bool:
        """Truncate a damaged replica to what is sound, to be fetched again; False where the state does not allow it
        yet.

        Of a compacted topic nothing stays: where the leader has dropped a tombstone, what it deleted would come back.
        """
        log, state = replica.log, self._host.local_replicas.state_of(replica.at)
        if state is None or self._host.node_id not in state.damaged or state.leader_epoch != replica.leader_epoch:
            return False
        damage = log.damage
        if not damage:
            self._host.replica_faults.repaired(replica.at)
            return True
        first_damaged = min(one.first_offset for one in damage)
        first_offset = log.log_start_offset if log.settings.is_compacted else first_damaged
        log_event(
            "damaged replica is fetched from its leader again",
            level="warning",
            partition=str(replica.at),
            from_offset=max(first_offset, log.log_start_offset),
            damaged=[f"{one.first_offset} to {one.next_offset - 1}" for one in damage[:_RANGES_AT_ONCE]],
            leader=replica.leader,
        )
        runtime = self._host.runtime

        async def truncate() -> None:
            if first_offset > log.log_start_offset:
                await runtime.truncate(log, first_offset)
            if log.damage:
                await runtime.restart(log, log.log_start_offset)
            assert not log.damage, "an empty log has nothing that could be damaged"
            self._host.replica_faults.repaired(replica.at)

        self._truncate(replica, truncate)
        return True

    def _append(self, replica: FollowerReplica, row: PartitionData) -> asyncio.Future[None] | None:
        log, flushed, size = replica.log, None, 0
        if self._pauses_s:
            self._pauses_s.pop(replica.at, None)
        records = row.records
        if records is not None and len(records):
            assert isinstance(records, memoryview | bytes | bytearray), "a message that was read holds its bytes"
            self._host.runtime.requests_handled += 1
            flushed = self._host.runtime.append_replicated(log, records)
            size = len(records)
            self._host.counters.replicated_bytes += size
            if replica.at in self._behind:
                self._host.throttles.note_received(replica.at, size)
        if row.high_watermark > log.end_offset:
            self._behind[replica.at] = None
        else:
            self._behind.pop(replica.at, None)
        log.advance_high_watermark(min(row.high_watermark, log.end_offset))
        if log.log_start_offset < row.log_start_offset <= log.high_watermark:
            log.advance_log_start(row.log_start_offset)
        self._host.follower_fetching.note_appended(replica.at, size)
        return flushed

    def _truncate(self, replica: FollowerReplica, act: Callable[[], object]) -> None:
        """Truncate a replica in a task of its own; until that is done it is not fetched and must not lead."""
        self._host.follower_fetching.retire(replica.at)
        over = self._truncating[replica.at] = asyncio.get_running_loop().create_future()

        async def truncate() -> None:
            try:
                await act()  # type: ignore[misc]
            except QanatError as fault:
                self._pause(replica, str(fault))
            finally:
                del self._truncating[replica.at]
                over.set_result(None)
                self._changed.set()

        self._host.park(truncate())

    def _pause(self, replica: FollowerReplica, reason: str) -> None:
        self._paused[replica.at] = asyncio.get_running_loop().time() + _PAUSE_S
        log_event(
            "replica cannot follow its leader",
            level="error",
            partition=str(replica.at),
            leader=replica.leader,
            reason=reason,
        )

    def _pause_briefly(self, at: TopicPartition) -> None:
        """The error is probably over soon; if not, fetch less and less often."""
        pause_s = self._pauses_s.get(at, _FIRST_PAUSE_S)
        until = asyncio.get_running_loop().time() + pause_s
        # Paused replicas have their turn together: each turn cuts the leader's wait for all others short.
        self._paused[at] = until if pause_s < _TURN_S else ceil(until / _TURN_S) * _TURN_S
        self._pauses_s[at] = min(2 * pause_s, _PAUSE_S)


def _is_settled(replica: FollowerReplica) -> bool:
    """Whether everything that a topic requires on disk is there: a fetch may claim only that.

    What a worker was writing when we ceased to lead is truncated first.
    """
    log = replica.log
    return (
        log.running_job != "truncation"
        and not log.is_appending
        and (not log.settings.is_synced or log.flushed_offset >= log.end_offset)
    )


def _as_epoch(end: EpochEnd) -> Epoch:
    return Epoch(end.epoch, end.end_offset)
