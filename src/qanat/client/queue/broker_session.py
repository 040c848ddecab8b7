"""Fetches, acknowledgements and renewals at one broker: one request at a time, in a task.

While the user holds records, a fetch does not wait at the broker but here, so that a verdict leaves at once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from qanat.client.queue.chunks import Chunk, acquired_batches
from qanat.client.queue.locks import Lock, PartitionLocks
from qanat.client.queue.session_host import SessionHost
from qanat.connection.deadline import Deadline
from qanat.connection.faults import OutOfTimeError, RefusedError, UnreachableError, error_code, refused
from qanat.connection.share_sessions import (
    FIRST_EPOCH,
    SESSION_LOST,
    FetchSize,
    Kind,
    Place,
    Settled,
    ShareSession,
    Verdicts,
    fetched_rows,
    is_renewal,
)
from qanat.model.errors import QanatError
from qanat.wire.kafka.registry import ApiKey

if TYPE_CHECKING:
    from qanat.connection.link import Link

_RENEWABLE_VERSION = 2
_BETWEEN_FETCHES_S = 0.2
"""How long to wait here before the next fetch, while the user holds records and the broker has no more."""
_RENEW_AFTER = 1 / 3
"""A lock is renewed after this part of its time."""
_FINAL_S = 5.0


class BrokerSession:
    """The consumer's session with one broker."""

    def __init__(self, member: SessionHost, node_id: int) -> None:
        self._member = member
        self.node_id = node_id
        self.wanted: dict[Place, str] = {}
        """Assigned partitions that this broker leads, with their topics' names."""
        self.locks: dict[Place, PartitionLocks] = {}
        self._session = ShareSession(member.settings.group_id, member.member_id)
        self._changed = asyncio.Event()
        self._lock_s = 30.0
        self._link: Link | None = None
        self._is_closing = False
        self._is_dry = False
        """Whether the last fetch brought nothing."""
        self._look_at = 0.0
        """When a lock has to be looked at next: renewed, or given up."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    def wake(self) -> None:
        self._changed.set()

    @property
    def is_settled(self) -> bool:
        """Whether the broker has answered every verdict."""
        return not self._session.has_verdicts and not self._session.is_answer_due

    def acknowledge(self, locks: PartitionLocks, said: Verdicts) -> None:
        """Verdicts on records of a partition, which the caller gives away, or renewals."""
        if is_renewal(said):
            for offset, kind in said.items():
                self._session.acknowledge(locks.at, offset, kind)
        else:
            self._session.acknowledge_all(locks.at, said)
        self._changed.set()

    async def close(self) -> None:
        """Send what waits, release what is held, and end the session."""
        self._is_closing = True
        self._changed.set()
        await asyncio.wait([self._task], timeout=_FINAL_S)
        self._task.cancel()
        await asyncio.wait([self._task])
        if self._link is not None and self._link.is_open and self._session.epoch != FIRST_EPOCH:
            for locks in self.locks.values():
                for offset in list(locks.held):
                    if locks.take(offset) is not None:
                        self._session.acknowledge(locks.at, offset, Kind.RELEASE)
            with contextlib.suppress(QanatError):
                deadline = Deadline.after(_FINAL_S)
                response = await self._link.call(ApiKey.SHARE_ACKNOWLEDGE, self._session.final(), deadline)
                self._settle(self._session.acknowledged(response))

    # The task

    async def _run(self) -> None:
        pause_s = 0.1
        while not self._is_closing:
            try:
                await self._turn()
                pause_s = 0.1
            except (UnreachableError, OutOfTimeError, RefusedError) as fault:
                if not self._take_fault(fault):
                    return
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause_s):
                        await self._wait_for_change(None)
                pause_s = min(2 * pause_s, 1.0)
            except QanatError as fault:
                self._lose_all(str(fault))
                self._member.fail(fault)
                return

    async def _turn(self) -> None:
        """One request, or one wait."""
        self._changed.clear()
        self._member.collect()
        session = self._session
        renew_at = self._renew_due_locks()
        is_open = session.epoch != FIRST_EPOCH
        has_room = self._member.has_room and bool(self.wanted)
        if is_open and session.has_renewals:
            await self._acknowledge(session.renewal())
        elif is_open and session.has_verdicts and (not has_room or session.must_acknowledge(self.wanted)):
            await self._acknowledge(session.acknowledgement())
        elif has_room and self._is_dry and self._holds_records and not session.has_verdicts:
            self._is_dry = False
            await self._wait_for_change(min(_BETWEEN_FETCHES_S, self._seconds_until(renew_at) or _BETWEEN_FETCHES_S))
        elif has_room and (wait_s := self._member.fetch_in_s):
            await self._wait_for_change(wait_s)
        elif has_room or (session.has_verdicts and self.wanted):
            await self._fetch()
        else:
            await self._wait_for_change(self._seconds_until(renew_at))

    @property
    def _holds_records(self) -> bool:
        return any(locks.held for locks in self.locks.values())

    async def _wait_for_change(self, seconds: float | None) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()

    def _seconds_until(self, moment: float | None) -> float | None:
        return None if moment is None else max(0.0, moment - asyncio.get_running_loop().time())

    async def _fetch(self) -> None:
        settings = self._member.settings
        is_awaited = self._holds_records or self._session.has_verdicts
        wait_ms = 0 if is_awaited else min(settings.fetch_max_wait_ms, int(self._lock_s * 250))
        size = FetchSize(wait_ms, settings.fetch_max_bytes, settings.max_poll_records)
        deadline = Deadline.after(wait_ms / 1000 + settings.request_timeout_ms / 1000)
        link = await self._open_link(deadline)
        began_at = asyncio.get_running_loop().time()
        response = await link.call(ApiKey.SHARE_FETCH, self._session.fetch(self.wanted, size), deadline)
        self._settle(self._session.fetched(response))
        self._check(response.error_code, response.error_message)
        if response.acquisition_lock_timeout_ms > 0:
            self._lock_s = response.acquisition_lock_timeout_ms / 1000
        count = 0
        for at, data in fetched_rows(response):
            if data.error_code:
                self._member.leader_is_stale()
            elif data.acquired_records:
                count += self._take(at, data, began_at)
        self._is_dry = not count

    def _take(self, at: Place, data: Any, began_at: float) -> int:
        """Lock acquired records and put them into the buffer; returns how many."""
        locks = self.locks.get(at)
        if locks is None:
            locks = self.locks[at] = PartitionLocks(at, self._member.topic_name(at), self)
        self._member.put_locks(locks)
        batches, gaps = acquired_batches(data)
        for offset in gaps:
            self._session.acknowledge(at, offset, Kind.GAP)
        lock = Lock(began_at, began_at + self._lock_s, self._member.epoch)
        self._look_at = min(self._look_at, began_at + self._lock_s * _RENEW_AFTER)
        for batch in batches:
            if again := locks.held_of(batch.offsets):
                # The broker saw the end of their former lock first: who works on them has to stop.
                self._member.lose(locks, again, "its time was over")
                self._session.forget(at, again)
            locks.hold(batch.offsets, lock, batch.counts)
        chunk = Chunk(locks, lock, [batch for batch in batches if batch.offsets])
        if len(chunk):
            self._member.put(chunk)
        return len(chunk)

    async def _acknowledge(self, request: Any) -> None:
        deadline = Deadline.after(self._member.settings.request_timeout_ms / 1000)
        link = await self._open_link(deadline)
        sent_at = asyncio.get_running_loop().time()
        response = await link.call(ApiKey.SHARE_ACKNOWLEDGE, request, deadline)
        self._settle(self._session.acknowledged(response), renewed_at=sent_at)
        self._check(response.error_code, response.error_message)

    def _settle(self, settled: Settled, renewed_at: float = 0.0) -> None:
        for at, said in settled.done:
            if is_renewal(said):
                self._renewed(said, at, renewed_at)
        for at, said, code in settled.refused:
            reason = f"the broker answers {error_code(code).name}"
            self._member.refuse(self.locks[at], said, reason)
        self._member.note_settled()

    def _renewed(self, offsets: Iterable[int], at: Place, renewed_at: float) -> None:
        held = self.locks[at].held
        for lock in {id(one): one for one in (held.get(offset) for offset in offsets) if one is not None}.values():
            lock.acquired_at = renewed_at
            lock.until = renewed_at + self._lock_s
            self._look_at = min(self._look_at, renewed_at + self._lock_s * _RENEW_AFTER)

    def _check(self, code: int, message: str | None) -> None:
        if code and code not in SESSION_LOST:
            raise refused(f"queue at broker {self.node_id}", code, message)

    async def _open_link(self, deadline: Deadline) -> Link:
        link = await self._member.data.node_link(self.node_id, deadline)
        if link is not self._link:
            if self._link is not None:
                self._lose_all(f"the connection to broker {self.node_id} was lost")
            if self._member.settings.lock == "auto":
                link.version_of(ApiKey.SHARE_ACKNOWLEDGE)
                if link.offered[ApiKey.SHARE_ACKNOWLEDGE][1] < _RENEWABLE_VERSION:
                    raise QanatError(
                        f"broker {self.node_id} cannot renew locks (KIP-1222, Kafka 4.2): set lock='manual'"
                    )
            self._link = link
        return link

    # Locks

    def _renew_due_locks(self) -> float | None:
        """Ask for renewals that are due; returns when the next ones are."""
        now = asyncio.get_running_loop().time()
        if now < self._look_at:
            return self._look_at
        soonest: float | None = None
        for locks in self.locks.values():
            if not locks.held:
                continue
            for lock, offsets in locks.by_lock():
                due_at = self._tend(locks, lock, offsets, now)
                if due_at is not None and (soonest is None or due_at < soonest):
                    soonest = due_at
        self._look_at = soonest or now
        return soonest

    def _tend(self, locks: PartitionLocks, lock: Lock, offsets: list[int], now: float) -> float | None:
        """Renew a lock that is due, drop one that is over; returns when to look at it again."""
        settings = self._member.settings
        if now >= lock.until:
            self._member.lose(locks, offsets, "its time was over")
            self._session.forget(locks.at, offsets)
            return None
        handed_at = lock.handed_at
        is_in_time = self._member.is_polled if handed_at is None else now < handed_at + settings.timeout_s
        if settings.lock != "auto" or not is_in_time:
            return lock.until
        due_at = lock.acquired_at + self._lock_s * _RENEW_AFTER
        if now < due_at:
            return due_at
        for offset in offsets:
            self._session.acknowledge(locks.at, offset, Kind.RENEW)
        return lock.until

    def _take_fault(self, fault: QanatError) -> bool:
        """Recover from a fault; returns whether to go on."""
        if isinstance(fault, RefusedError) and not fault.is_retriable:
            self._lose_all(str(fault))
            self._member.fail(fault)
            return False
        self._lose_all(str(fault))
        self._member.leader_is_stale()
        return True

    def _lose_all(self, reason: str) -> None:
        """A broken connection ends the session, and with it every lock at this broker."""
        for at, said in self._session.lost():
            if at in self.locks:
                self._member.refuse(self.locks[at], said, reason)
        for locks in self.locks.values():
            self._member.lose(locks, list(locks.held), reason)
        if self._link is not None:
            self._link.abort()
            self._link = None
        self._member.note_settled()
