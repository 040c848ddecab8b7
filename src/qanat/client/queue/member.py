"""The queue consumer's work on the I/O loop: membership, sessions with brokers, and the buffer between them and polls.

User threads touch three things: they take chunks from the buffer, remove locks, and append verdicts: accepted offsets
to their partition, others to `_said`.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from qanat.client.errors import LockLostError
from qanat.client.io_loop import IoLoop
from qanat.client.queue.broker_session import BrokerSession
from qanat.client.queue.chunks import Chunk
from qanat.client.queue.locks import Lock, PartitionLocks
from qanat.client.queue.settings import QueueSettings
from qanat.client.queue.verdicts import FencingToken, Verdict
from qanat.client.records import Record
from qanat.connection.cluster import Cluster
from qanat.connection.consuming.member_ids import new_member_id
from qanat.connection.share_membership import Assignment, ShareMember, ShareMembership
from qanat.connection.share_sessions import Kind, Place, Verdicts
from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition

_ACCEPT, _RENEW = int(Kind.ACCEPT), int(Kind.RENEW)
_ACCEPTED = Verdict.ACCEPT
_LINGER_S = 0.001
"""How long verdicts gather before they wake a session."""
_PIGGYBACK_S = 0.01
"""How long a fetch waits for verdicts on records that were just handed out: one request instead of two."""
_REFRESH_PAUSE_S = 0.2
_REFUSED_SHOWN = 3
_FINAL_S = 10.0
_HANDED_STEP = 0.01
"""How exactly an iterator notes when it hands out a record, as a part of `timeout_s`."""

LockLost = Callable[[TopicPartition, int, str], object]
"""Called with partition, offset and reason of a record whose lock was lost while the user had it."""


class QueueMember:
    """One consumer of a queue. Made and used on the I/O loop, but for the methods that say otherwise."""

    def __init__(self, settings: QueueSettings, topics: Sequence[str], io: IoLoop, on_lock_lost: LockLost) -> None:
        self.settings = settings
        self.member_id = new_member_id()
        self._topics = list(topics)
        self._io = io
        self._on_lock_lost = on_lock_lost
        bootstrap, security = settings.bootstrap_servers, settings.security
        timeout_s, bootstrap_s = settings.request_timeout_ms / 1000, settings.bootstrap_timeout_ms / 1000
        self._control = Cluster(bootstrap, settings.client_id, timeout_s, security, bootstrap_s)
        """Heartbeats and metadata, which must not stand behind a fetch that waits."""
        self.data = Cluster(bootstrap, settings.client_id, timeout_s, security, bootstrap_s)
        self._membership: ShareMembership | None = None
        self._sessions: dict[int, BrokerSession] = {}
        self._names: dict[bytes, str] = {}
        self._assignment: Assignment = {}
        self.locks: dict[str, dict[int, PartitionLocks]] = {}
        """By topic and partition: two dictionaries are faster than one with pairs."""
        self._said: deque[tuple[PartitionLocks, int, int]] = deque()
        """Verdicts other than acceptance."""
        self._is_signalled = False
        self._buffer: deque[Chunk] = deque()
        self._buffered = 0
        self._buffer_guard = threading.Lock()
        self._polled_at = io.loop.time()
        """When the user asked for records last."""
        self._waiting = 0
        """Polls that wait for records."""
        self._fetch_at = 0.0
        self._flushes = 0
        self._arrived = asyncio.Event()
        self._settled = asyncio.Event()
        self._stale = asyncio.Event()
        self._refresher: asyncio.Task[None] | None = None
        self._refused: list[str] = []
        self._refused_count = 0
        self._fault: QanatError | None = None

    # Life

    async def start(self) -> None:
        """Check the topics, and join."""
        deadline = self._control.deadline()
        for topic in self._topics:
            await self._control.topic(topic, deadline, may_lack_leaders=True)
        member = ShareMember(self.settings.group_id, self.member_id, self._topics, self.settings.client_rack)
        self._membership = ShareMembership(self._control, member, self._assign, self.fail)
        self._membership.start()
        self._refresher = asyncio.get_running_loop().create_task(self._refresh())

    async def close(self) -> None:
        """Send verdicts, release what is held, leave the group. Bounded in time."""
        if self._refresher is not None:
            self._refresher.cancel()
            await asyncio.wait([self._refresher])
        self.collect()
        if self._sessions:
            closing = [asyncio.ensure_future(one.close()) for one in self._sessions.values()]
            await asyncio.wait(closing, timeout=_FINAL_S)
        if self._membership is not None:
            await self._membership.close()
        for cluster in (self.data, self._control):
            await cluster.__aexit__()
        self._arrived.set()

    def fail(self, fault: QanatError) -> None:
        """Keep a fault that no retry repairs; polls raise it."""
        self._fault = fault
        self._arrived.set()
        self._settled.set()

    @property
    def epoch(self) -> int:
        return 0 if self._membership is None else self._membership.member.epoch

    # Partitions and leaders

    def topic_name(self, at: Place) -> str:
        return self._names[at[0]]

    def _assign(self, assignment: Assignment) -> None:
        self._assignment = assignment
        self._stale.set()

    def leader_is_stale(self) -> None:
        self._stale.set()

    async def _refresh(self) -> None:
        """Find the leaders of assigned partitions whenever they may have changed."""
        while True:
            await self._stale.wait()
            self._stale.clear()
            try:
                is_complete = await self._find_leaders()
            except QanatError:
                is_complete = False
            if not is_complete:
                self._stale.set()
            await asyncio.sleep(_REFRESH_PAUSE_S)

    async def _find_leaders(self) -> bool:
        response = await self._control.metadata(self._topics, self._control.deadline())
        leaders: dict[Place, int] = {}
        for topic in response.topics:
            self._names[bytes(topic.topic_id)] = topic.name or ""
            for row in topic.partitions:
                leaders[bytes(topic.topic_id), row.partition_index] = row.leader_id
        wanted: dict[int, dict[Place, str]] = {}
        is_complete = True
        for topic_id, numbers in self._assignment.items():
            for number in numbers:
                leader = leaders.get((topic_id, number), -1)
                if leader < 0:
                    is_complete = False
                else:
                    wanted.setdefault(leader, {})[topic_id, number] = self._names[topic_id]
        for node_id in wanted:
            if node_id not in self._sessions:
                self._sessions[node_id] = BrokerSession(self, node_id)
        for node_id, session in self._sessions.items():
            session.wanted = wanted.get(node_id, {})
            for at, locks in session.locks.items():
                if locks.held and leaders.get(at, node_id) not in (node_id, -1):
                    self.lose(locks, list(locks.held), "another broker leads the partition")
            session.wake()
        return is_complete

    # The buffer

    @property
    def has_room(self) -> bool:
        return self._buffered < self.settings.prefetch_records and self.is_polled

    @property
    def is_polled(self) -> bool:
        """Whether there is a user: what nobody asks for is neither fetched nor kept from others."""
        return self._waiting > 0 or self._io.loop.time() < self._polled_at + self.settings.timeout_s

    def put(self, chunk: Chunk) -> None:
        with self._buffer_guard:
            self._buffer.append(chunk)
            self._buffered += len(chunk)
        self._arrived.set()

    def take(self, count: int) -> list[Record[Any, Any]]:
        """At most so many records, from any thread."""
        found: list[Record[Any, Any]] = []
        now = self._io.loop.time()
        with self._buffer_guard:
            was_full = not self.has_room
            self._polled_at = now
            while self._buffer and len(found) < count:
                chunk = self._buffer[0]
                if now >= chunk.lock.until:
                    # A process that was stopped: others may have these, though the loop has not noticed yet.
                    self._buffered -= len(chunk)
                    self._buffer.popleft()
                    continue
                before = len(chunk)
                found += chunk.take(count - len(found), now)
                self._buffered -= before - len(chunk)
                if not len(chunk):
                    self._buffer.popleft()
            is_roomy = was_full and self.has_room
        if is_roomy:
            self._io.soon(self._note_room)
        return found

    def one_by_one(self, records: list[Record[Any, Any]]) -> Iterator[Record[Any, Any]]:
        """Iterate over what was taken, on any thread: each counts as handed out only when it is asked for.

        A record's time in the user's hands is exact to a hundredth of `timeout_s`.
        """
        clock, step_s = self._io.loop.time, self.settings.timeout_s * _HANDED_STEP
        look_at = clock() + step_s
        for index, record in enumerate(records):
            if clock() >= look_at:
                self.hand_again(records[index:])
                look_at = clock() + step_s
            yield record

    def hand_again(self, records: Sequence[Record[Any, Any]]) -> None:
        """From any thread: these were taken before, and reach the user only now."""
        now = self._io.loop.time()
        handed: dict[Lock, Lock] = {}
        with self._buffer_guard:
            was_full, self._polled_at = not self.has_room, now
            for record in records:
                locks = self.locks_of(record.topic, record.partition)
                if locks is None or not locks.holds(record):
                    continue
                lock = locks.held[record.offset]
                if lock not in handed:
                    handed[lock] = lock.handed_out(now)
                locks.held[record.offset] = handed[lock]
            is_roomy = was_full and self.has_room
        if is_roomy:
            self._io.soon(self._note_room)

    def _note_room(self) -> None:
        self._fetch_at = self._io.loop.time() + _PIGGYBACK_S
        self._wake_sessions()

    @property
    def fetch_in_s(self) -> float:
        """How long the next fetch may wait for verdicts on the records in hand, to carry them."""
        if self._flushes or self._io.loop.time() >= self._fetch_at:
            return 0.0
        in_hand = sum(len(one.held) for there in self.locks.values() for one in there.values()) - self._buffered
        return max(0.0, self._fetch_at - self._io.loop.time()) if in_hand > 0 else 0.0

    async def wait_for_records(self, timeout_s: float) -> None:
        """Wait until there are records, at most so long; raises a fault that ended the consumer."""
        if self._fault is not None:
            raise self._fault
        if not self._buffer:
            self._arrived.clear()
            self._waiting += 1
            try:
                async with asyncio.timeout(timeout_s):
                    await self._arrived.wait()
            except TimeoutError:
                return
            finally:
                self._waiting -= 1
            if self._fault is not None:
                raise self._fault

    def _wake_sessions(self) -> None:
        for session in self._sessions.values():
            session.wake()

    def locks_of(self, topic: str, partition: int) -> PartitionLocks | None:
        return self.locks.get(topic, {}).get(partition)

    def put_locks(self, locks: PartitionLocks) -> None:
        """These are the locks of their partition from now on."""
        former = self.locks_of(locks.topic, locks.partition)
        if former is locks:
            return
        if former is not None:  # Of another leader: what the user has of it may come again.
            locks.lost_end = max(locks.lost_end, former.lost_end, max(list(former.held), default=-1) + 1)
        self.locks.setdefault(locks.topic, {})[locks.partition] = locks

    # Verdicts

    def say(self, record: Record[Any, Any], kind: int) -> None:
        """Take a verdict, from any thread; raises `LockLostError`."""
        try:
            locks = self.locks[record.topic][record.partition]
            if kind is _ACCEPTED and record.delivery_count == 1 and not locks.redelivered:
                del locks.held[record.offset]  # Nearly always: what `holds` and `take` do.
                locks.accepted.append(record.offset)
            else:
                self._say_any(locks, record, kind)
        except KeyError:
            raise lock_lost(record) from None
        if not self._is_signalled:
            self._is_signalled = True
            self._io.soon(self._gather)

    def _say_any(self, locks: PartitionLocks, record: Record[Any, Any], kind: int) -> None:
        """Any verdict, on any delivery; raises `KeyError` where it is not held."""
        offset = record.offset
        if not locks.holds(record) or (kind != _RENEW and locks.take(offset) is None):
            raise KeyError(offset)
        if kind == _ACCEPT:
            locks.accepted.append(offset)
        else:
            self._said.append((locks, offset, kind))

    def fencing_token(self, record: Record[Any, Any]) -> FencingToken:
        """From any thread; raises `LockLostError`."""
        locks = self.locks_of(record.topic, record.partition)
        lock = None if locks is None else locks.held.get(record.offset)
        if locks is None or lock is None or not locks.holds(record):
            raise lock_lost(record)
        return FencingToken(record.delivery_count, lock.member_epoch)

    def _gather(self) -> None:
        self._io.loop.call_later(_LINGER_S, self._take_said)

    def _take_said(self) -> None:
        self._is_signalled = False
        self.collect()

    def collect(self) -> None:
        """Hand the verdicts to the sessions of their brokers.

        A renewal is said before the record is accepted: what is counted here as accepted has its renewal in `_said`.
        """
        places = [locks for session in self._sessions.values() for locks in session.locks.values() if locks.accepted]
        counts = [len(locks.accepted) for locks in places]
        said, take = self._said, self._said.popleft
        last: PartitionLocks | None = None
        verdicts: Verdicts = {}
        while said:
            locks, offset, kind = take()
            if kind == _RENEW:
                locks.session.acknowledge(locks, {offset: kind})
                continue
            if locks is not last:
                if last is not None:
                    last.session.acknowledge(last, verdicts)
                last, verdicts = locks, {}
            verdicts[offset] = kind
        if last is not None:
            last.session.acknowledge(last, verdicts)
        for locks, count in zip(places, counts, strict=True):
            offsets = locks.accepted[:count]
            del locks.accepted[:count]
            locks.session.acknowledge(locks, dict.fromkeys(offsets, _ACCEPT))

    async def flush(self, timeout_s: float) -> None:
        """Wait until brokers have answered all verdicts; raises `LockLostError` for those that came too late."""
        self.collect()
        self._flushes += 1
        self._wake_sessions()
        try:
            async with asyncio.timeout(timeout_s):
                while not all(one.is_settled for one in self._sessions.values()) and self._fault is None:
                    self._settled.clear()
                    await self._settled.wait()
        except TimeoutError:
            raise QanatError(f"the brokers did not answer all acknowledgements within {timeout_s:g} s") from None
        finally:
            self._flushes -= 1
        if self._fault is not None:
            raise self._fault
        refused, count = self._refused, self._refused_count
        self._refused, self._refused_count = [], 0
        if count:
            raise LockLostError(f"{count} acknowledgements came too late, other consumers get the records: {refused}")

    def note_settled(self) -> None:
        self._settled.set()

    # Lost locks

    def lose(self, locks: PartitionLocks, offsets: Sequence[int], reason: str) -> None:
        """Locks that are no longer ours."""
        with self._buffer_guard:  # A poll that hands some of them out would hold them again.
            lost = [offset for offset in offsets if locks.lose(offset)]
        partition = TopicPartition(locks.topic, locks.partition)
        for offset in lost:
            self._on_lock_lost(partition, offset, reason)

    def refuse(self, locks: PartitionLocks, said: Verdicts, reason: str) -> None:
        """Verdicts that came too late."""
        for offset, kind in said.items():
            if kind == Kind.RENEW:
                self.lose(locks, [offset], reason)
            elif kind in (Kind.ACCEPT, Kind.REJECT):
                self._refused_count += 1
                if len(self._refused) < _REFUSED_SHOWN:
                    self._refused.append(f"{locks.topic}-{locks.partition} at offset {offset}, {reason}")


def lock_lost(record: Record[Any, Any]) -> LockLostError:
    return LockLostError(
        f"{record.topic}-{record.partition} at offset {record.offset} is not locked for this consumer: its lock was "
        "lost, or it was acknowledged before; another consumer may have the record, so undo what must not be done twice"
    )
