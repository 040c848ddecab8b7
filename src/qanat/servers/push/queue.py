"""A subscription in mode `queue`: a member of a share group (KIP-932), whose records leave in frames of their own.

The share group has the locks, counts deliveries and gives records again; its state is durable before a verdict counts.
The client library's own membership and session make the requests, in this process or to the leader.

Rule: no more records are acquired than the client has credit for: what a slow client does not hold, others get.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from qanat.connection.consuming.member_ids import new_member_id
from qanat.connection.consuming.topic_views import view_topics
from qanat.connection.deadline import Deadline
from qanat.connection.faults import OutOfTimeError, RefusedError, UnreachableError, check
from qanat.connection.share_membership import Assignment, ShareMember, ShareMembership
from qanat.connection.share_sessions import (
    FIRST_EPOCH,
    SESSION_LOST,
    FetchSize,
    Kind,
    Place,
    ShareSession,
    fetched_rows,
)
from qanat.edge.credit import CreditWindow
from qanat.edge.push_queue import Held, PushQueue
from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition
from qanat.servers.push.deliveries import INFLATED_BYTES_MAX, UNREADABLE, Chunk
from qanat.servers.push.local_cluster import LocalLink
from qanat.wire.kafka.messages.share_fetch import PartitionData
from qanat.wire.kafka.registry import ApiKey
from qanat.wire.push.control import Ack, Mode, Subscribe, Verdict
from qanat.wire.push.data import PushedRecord, encode_record
from qanat.wire.push.frames import FrameType, frame_header
from qanat.wire.push.plain import plain_record
from qanat.wire.record_reader import split_records
from qanat.wire.records import open_batch, wrapped
from qanat.wire.visible_batches import visible_batches

if TYPE_CHECKING:
    from qanat.servers.push.ports import PushClient

_KINDS = {
    Verdict.ACCEPT: Kind.ACCEPT,
    Verdict.RELEASE: Kind.RELEASE,
    Verdict.REJECT: Kind.REJECT,
    Verdict.RENEW: Kind.RENEW,
}
_IDLE_WAIT_MS = 1_000
_HELD_WAIT_MS = 100
"""How long a fetch may park while the client holds records: its verdicts wait for the answer."""
_PAUSE_S = 0.2
_REQUEST_S = 15.0
_DATA = int(FrameType.DATA)


class _Leader:
    """The session with one broker."""

    def __init__(self, session: ShareSession) -> None:
        self.session = session
        self.wanted: list[Place] = []
        self.changed = asyncio.Event()
        self.task: asyncio.Task[None] | None = None


class QueueSubscription:
    """One subscriber."""

    mode = Mode.QUEUE

    def __init__(self, connection: PushClient, wanted: Subscribe) -> None:
        self._connection = connection
        self._cluster = connection.cluster
        self.group = wanted.group
        self._topics = {name: index for index, name in enumerate(wanted.wanted)}
        self.credit = CreditWindow(wanted.credit.records, wanted.credit.bytes)
        self._queue = PushQueue(self.credit)
        self._names: dict[bytes, str] = {}
        self._places: dict[TopicPartition, Place] = {}
        self._leaders: dict[int, _Leader] = {}
        member = ShareMember(self.group, new_member_id(), list(self._topics))
        self._membership = ShareMembership(self._cluster, member, self._assigned, self._failed)
        self._assignment: dict[bytes, list[int]] = {}
        self.is_over = False

    async def start(self) -> None:
        self._membership.start()

    async def close(self) -> None:
        """Send the last verdicts, and leave: what is held goes to others."""
        self.is_over = True
        for node_id, leader in self._leaders.items():
            if leader.task is not None:
                leader.task.cancel()
                await asyncio.wait([leader.task])
            if leader.session.epoch != FIRST_EPOCH:
                with contextlib.suppress(QanatError):
                    deadline = Deadline.after(5)
                    link = self._cluster.link_alone(node_id)
                    await link.call(ApiKey.SHARE_ACKNOWLEDGE, leader.session.final(), deadline)
        await self._membership.close()
        self._cluster.close_links()

    # The group

    def _failed(self, fault: QanatError) -> None:
        self._connection.end("group-refused", str(fault))

    def _assigned(self, assignment: Assignment) -> None:
        self._assignment = {topic_id: list(numbers) for topic_id, numbers in assignment.items()}
        self._connection.spawn(self._find_leaders())

    async def _find_leaders(self) -> None:
        """Which broker to fetch each partition from."""
        try:
            views = await view_topics(self._cluster, list(self._topics), self._cluster.deadline())
        except QanatError:
            await asyncio.sleep(_PAUSE_S)
            self._connection.spawn(self._find_leaders())
            return
        wanted: dict[int, list[Place]] = {}
        for view in views.values():
            self._names[view.topic_id] = view.name
            for number in self._assignment.get(view.topic_id, ()):
                leader, _ = view.leaders.get(number, (-1, -1))
                if leader >= 0:
                    wanted.setdefault(leader, []).append((view.topic_id, number))
                    self._places[TopicPartition(view.name, number)] = (view.topic_id, number)
        for node_id in {**wanted, **self._leaders}:
            self._want(node_id, wanted.get(node_id, []))

    def _want(self, node_id: int, places: list[Place]) -> None:
        leader = self._leaders.get(node_id)
        if leader is None:
            leader = self._leaders[node_id] = _Leader(ShareSession(self.group, self._membership.member.member_id))
        leader.wanted = places
        leader.changed.set()
        if leader.task is None or leader.task.done():
            leader.task = self._connection.spawn(self._serve(node_id, leader))

    # Frames of the client

    def acknowledge(self, frame_id: int, ack: Ack | None) -> None:
        verdict = Verdict.ACCEPT if ack is None or ack.verdict is None else ack.verdict
        held = self._queue.settle(frame_id, verdict)
        if ack is not None and ack.credit is not None:
            self.credit.grant(ack.credit.records, ack.credit.bytes)
        if held is None:
            return
        place = self._places[held.at]
        for leader in self._leaders.values():
            if place in leader.wanted:
                leader.session.acknowledge(place, held.offset, _KINDS[verdict])
                leader.changed.set()

    def is_overdue(self, now_ms: int) -> bool:
        """Never: the share group's locks end by themselves."""
        return False

    @property
    def out_records(self) -> int:
        return self.credit.out_records

    @property
    def acknowledged_id(self) -> int:
        return self._queue.acknowledged_id

    refresh = ""
    """A queue has nothing to refresh."""

    wants_tick = True

    def tick(self) -> None:
        """Time has passed."""
        self.pump()

    def pump(self) -> None:
        """The socket has room again, or time has passed."""
        for leader in self._leaders.values():
            leader.changed.set()

    pump_late = pump

    # Records

    async def _serve(self, node_id: int, leader: _Leader) -> None:
        link = self._cluster.link_alone(node_id)
        while not self.is_over:
            leader.changed.clear()
            try:
                await self._turn(link, leader)
            except (UnreachableError, OutOfTimeError, RefusedError):
                leader.session.begin_again()
                await asyncio.sleep(_PAUSE_S)
                self._connection.spawn(self._find_leaders())

    async def _turn(self, link: LocalLink, leader: _Leader) -> None:
        """One request, or one wait."""
        session = leader.session
        is_open = session.epoch != FIRST_EPOCH
        has_room = bool(leader.wanted) and self.credit.is_open and self._connection.can_write
        if is_open and session.has_renewals:
            await self._acknowledge(link, session, session.renewal())
        elif is_open and session.has_verdicts and (not has_room or session.must_acknowledge(leader.wanted)):
            await self._acknowledge(link, session, session.acknowledgement())
        elif has_room:
            await self._fetch(link, leader)
        else:
            await leader.changed.wait()

    async def _acknowledge(self, link: LocalLink, session: ShareSession, request: object) -> None:
        response = await link.call(ApiKey.SHARE_ACKNOWLEDGE, request, Deadline.after(_REQUEST_S))
        session.acknowledged(response)
        if response.error_code not in SESSION_LOST:
            check(f"queue {self.group}", response.error_code, response.error_message)

    async def _fetch(self, link: LocalLink, leader: _Leader) -> None:
        if not self._may_read():
            return
        session = leader.session
        wait_ms = _HELD_WAIT_MS if self._queue.held or session.has_verdicts else _IDLE_WAIT_MS
        size = FetchSize(wait_ms, max(self.credit.left_bytes, 1), self.credit.left_records)
        request = session.fetch(leader.wanted, size)
        request.batch_size = min(request.batch_size, size.max_records)
        response = await link.call(ApiKey.SHARE_FETCH, request, Deadline.after(wait_ms / 1000 + _REQUEST_S))
        session.fetched(response)
        if not self._may_read():
            return  # Its rule was removed while the fetch waited for records: the end of the session releases them.
        if response.error_code in SESSION_LOST:
            return
        check(f"queue {self.group}", response.error_code, response.error_message)
        for place, row in fetched_rows(response):
            if row.error_code:
                self._connection.spawn(self._find_leaders())
            elif row.acquired_records:
                try:
                    self._deliver(place, row, session)
                except QanatError as fault:
                    name = f"{self._names[place[0]]}-{place[1]}"
                    self._end(UNREADABLE, f"{name} has records that cannot be read: {fault}")
                    return

    def _may_read(self) -> bool:
        for topic in self._topics:
            if not self._connection.may_read(topic):
                self._end("not-authorized", f"topic {topic} may not be read any more")
                return False
        return True

    def _end(self, reason: str, message: str) -> None:
        """Say why, and ask for nothing more: until the client is gone, that would be refused again and again."""
        self.is_over = True
        self._connection.end(reason, message)

    def _deliver(self, place: Place, row: PartitionData, session: ShareSession) -> None:
        """Send acquired records; offsets without a record are settled as gaps."""
        at = TopicPartition(self._names[place[0]], place[1])
        acquired = {offset for one in row.acquired_records for offset in range(one.first_offset, one.last_offset + 1)}
        chunks: list[Chunk] = []
        views = [memoryview(row.records)] if row.records else []  # type: ignore[arg-type]
        for batch, header, is_visible in visible_batches(views, ()):
            if not is_visible:
                continue
            verified, payload = open_batch(batch, INFLATED_BYTES_MAX)
            fixed = header.max_timestamp if header.is_log_append_time else None
            for _, delta, number, key, value, headers in split_records(
                payload, verified.record_count, verified.last_offset_delta
            ):
                offset = header.base_offset + number
                if offset not in acquired:
                    continue
                acquired.discard(offset)
                timestamp = wrapped(header.base_timestamp + delta) if fixed is None else fixed
                if self._connection.is_plain:
                    data = plain_record(at.topic, at.partition, offset, timestamp, key, value)
                else:
                    index = self._topics[at.topic]
                    data = encode_record(
                        PushedRecord(index, at.partition, header.leader_epoch, offset, timestamp, key, value, headers)
                    )
                frame_id = self._queue.sent(Held(at, offset, len(data)))
                chunks.append(frame_header(_DATA, frame_id, len(data)) + data)
        for offset in sorted(acquired):
            session.acknowledge(place, offset, Kind.GAP)
        if chunks:
            self._connection.send_chunks(chunks)
