"""A place in a group on the protocol of KIP-848: the heartbeats and reconciliations of `consumer_member`.

Two tasks: one sends heartbeats, on time whatever the listener does; one reconciles, and waits for the listener.

Rule 1: whoever changes the member wakes the heartbeat, which reports it at once.
Rule 2: after a fence the listener hears of the loss before the member joins again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping, Sequence

from qanat.connection.cluster import Cluster
from qanat.connection.consuming.consumer_member import ConsumerMember, IdPartition, Reconciliation, Verdict
from qanat.connection.consuming.coordinator import Coordinator
from qanat.connection.consuming.group_commits import CommittedOffset, Identity, commit_as_member
from qanat.connection.consuming.group_place import Listener, PlaceTerms
from qanat.connection.consuming.topic_views import names_of
from qanat.connection.deadline import Deadline
from qanat.connection.faults import NotOfferedError, OutOfTimeError, RefusedError, UnreachableError, refused
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition
from qanat.wire.kafka.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from qanat.wire.kafka.registry import ApiKey

_LEAVE_S = 3.0
_PAUSE_S = 0.1
_PAUSE_MAX_S = 1.0
_JOIN_INTERVAL_S = 1.0
"""Time to the next heartbeat while the coordinator has not named one."""
_STALE = (ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.ILLEGAL_GENERATION)
_GONE = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.FENCED_INSTANCE_ID)
_NOT_HERE = (
    ErrorCode.UNSUPPORTED_VERSION,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
)
"""Codes of a broker, or of a group, that has the classic protocol only."""


class ClassicOnlyError(NotOfferedError):
    """The broker, or the group as it is, knows the classic protocol only."""


class ConsumerMembership:
    """One member, on tasks of its own."""

    def __init__(
        self,
        cluster: Cluster,
        group: str,
        topics: Sequence[str],
        listener: Listener,
        terms: PlaceTerms,
        member_id: str,
    ) -> None:
        self._cluster = cluster
        self._coordinator = Coordinator(cluster, group)
        self._listener = listener
        self._rebalance_s = terms.rebalance_ms / 1000
        self._member = ConsumerMember(
            group,
            topics,
            member_id,
            rebalance_timeout_ms=terms.rebalance_ms,
            instance_id=terms.instance_id,
            rack_id=terms.rack_id,
            assignor=terms.server_assignor,
            pattern=terms.pattern,
        )
        self.trouble = ""
        self._names: dict[bytes, str] = {}
        self._news = asyncio.Event()
        self._heart: asyncio.Task[None] | None = None
        self._reconciling: asyncio.Task[None] | None = None
        self._is_asking = False
        """Whether a heartbeat has no answer yet: if it is the first, the group may know this member all the same."""
        self._over = asyncio.Event()
        """Set when heartbeats end. A cancellation alone can be lost: `wait_for` of Python 3.11 prefers an answer that
        arrives in the same turn."""

    @property
    def identity(self) -> Identity:
        return Identity(self._member.member_id, self._member.epoch, self._member.instance_id)

    @property
    def is_joined(self) -> bool:
        return self._member.epoch > 0

    def start(self) -> None:
        self._heart = asyncio.create_task(self._beat())

    async def wait_failed(self) -> None:
        assert self._heart is not None, "start comes first"
        await asyncio.wait([self._heart])
        if not self._heart.cancelled():
            self._heart.result()

    def subscribe(self, topics: Sequence[str]) -> None:
        self._member.subscribe(topics)
        self._news.set()

    async def commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> bool:
        deadline = self._cluster.deadline()

        async def attempt() -> None:
            while True:
                who = self.identity
                try:
                    return await commit_as_member(self._coordinator, who, offsets, deadline)
                except RefusedError as fault:
                    # The epoch moved between the request and its arrival; the partitions are still ours.
                    if fault.code not in _STALE or not self._owns(offsets):
                        raise
                if self.identity.epoch == who.epoch:
                    self._news.set()
                    await deadline.pause(_PAUSE_S)

        try:
            await self._cluster.persist(attempt, deadline)
        except RefusedError as fault:
            if fault.code in _STALE or fault.code in _GONE:
                return False
            raise
        return True

    def _owns(self, partitions: Iterable[TopicPartition]) -> bool:
        return self.is_joined and set(partitions) <= set(self._named(self._member.owned))

    async def close(self, *, is_leaving: bool = True) -> None:
        """Give everything back and leave the group; not so where another place goes on under the member's id."""
        await self._stop_reconciling()
        for_close = self._named(sorted(self._member.owned))
        if for_close and self.is_joined:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._listener.revoked(for_close), self._rebalance_s)
        self._over.set()
        if self._heart is not None:
            self._heart.cancel()
            await asyncio.wait([self._heart])
        if is_leaving and (self.is_joined or self._is_asking):
            deadline = Deadline.after(min(_LEAVE_S, self._cluster.timeout_s))
            with contextlib.suppress(QanatError):
                await self._coordinator.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, self._member.leave_request(), deadline)

    # Heartbeats

    async def _beat(self) -> None:
        """Send heartbeats until the group refuses us."""
        pause = _PAUSE_S
        while not self._over.is_set():
            self._news.clear()
            self._is_asking = True
            verdict = await self._beat_once()
            self._is_asking = False
            if self._over.is_set():
                return
            if verdict is Verdict.FENCED:
                await self._begin_anew()
            elif verdict is Verdict.LATER:
                await asyncio.sleep(pause)
                pause = min(2 * pause, _PAUSE_MAX_S)
            else:
                pause = _PAUSE_S
                self._reconcile_soon()
                if not self._member.has_news:
                    await self._wait()

    async def _wait(self) -> None:
        """Wait until the next heartbeat is due, or there is something to report."""
        interval_s = self._member.interval_ms / 1000 or _JOIN_INTERVAL_S
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._news.wait(), interval_s)

    async def _beat_once(self) -> Verdict:
        request = self._member.request()
        try:
            response: ConsumerGroupHeartbeatResponse = await self._coordinator.call(
                ApiKey.CONSUMER_GROUP_HEARTBEAT, request, self._cluster.deadline()
            )
        except NotOfferedError as fault:
            raise ClassicOnlyError(str(fault)) from None
        except RefusedError as fault:
            if not fault.is_retriable:
                raise
            return self._unanswered(fault)
        except (UnreachableError, OutOfTimeError) as fault:
            return self._unanswered(fault)
        self.trouble = ""
        self._coordinator.note(response.error_code)
        verdict = self._member.answered(request, response)
        if verdict is Verdict.LATER:
            self.trouble = str(refused("it refuses for now", response.error_code, response.error_message))
        if verdict is Verdict.REFUSED:
            group, code = self._member.group, response.error_code
            if code in _NOT_HERE and not self.is_joined:
                raise ClassicOnlyError(f"group {group} cannot be joined: {response.error_message}")
            raise refused(f"group {group} refuses this member", code, response.error_message)
        return verdict

    def _unanswered(self, fault: QanatError) -> Verdict:
        self.trouble = str(fault)
        self._member.failed()
        return Verdict.LATER

    async def _begin_anew(self) -> None:
        await self._stop_reconciling()
        lost = self._named(self._member.fence())
        if lost:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._listener.lost(lost), self._rebalance_s)

    # Reconciliation

    def _reconcile_soon(self) -> None:
        is_idle = self._reconciling is None or self._reconciling.done()
        if is_idle and self._member.owned != self._member.target:
            self._reconciling = asyncio.create_task(self._reconcile())

    async def _reconcile(self) -> None:
        """Revoke, report, assign, report, until what is owned is what is wanted."""
        unknown = self._member.unknown_topics(self._names)
        if unknown:
            with contextlib.suppress(QanatError):
                self._names |= await names_of(self._cluster, unknown, self._cluster.deadline())
        while (change := self._member.begin(self._names)) is not None:
            await self._apply(change)
            self._news.set()

    async def _apply(self, change: Reconciliation) -> None:
        if change.revoked:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._listener.revoked(self._named(change.revoked)), self._rebalance_s)
            self._member.revoked(change)
            self._news.set()
        added = self._member.own(change)
        if added or not change.revoked:
            await self._listener.assigned(self._named(added))
        self._member.finish(change)

    async def _stop_reconciling(self) -> None:
        if self._reconciling is not None:
            self._reconciling.cancel()
            await asyncio.wait([self._reconciling])
            self._reconciling = None

    def _named(self, partitions: Iterable[IdPartition]) -> list[TopicPartition]:
        return [TopicPartition(self._names[topic_id], number) for topic_id, number in partitions]
