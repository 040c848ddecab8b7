"""A subscription in mode `log` or `all`: partitions come and go, records leave, acknowledgements are committed.

`edge.push_session` decides what may leave and what is committed. In `log` the subscriber is a member of a consumer
group (KIP-848) by the client library's own membership, over requests in this process.

Rule 1: an append only schedules the delivery, so that it goes on first; whatever else is appended in the same turn of
        the event loop leaves with it.
Rule 2: before every delivery the permission to read is looked up: a removed one ends the subscription.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Coroutine, Iterable
from typing import TYPE_CHECKING, Any

from qanat.broker.replicas.partition import Partition
from qanat.connection.committed import committed_positions
from qanat.connection.consuming.consumer_membership import ConsumerMembership
from qanat.connection.consuming.group_commits import CommittedOffset
from qanat.connection.consuming.group_place import PlaceTerms
from qanat.edge.credit import CreditWindow
from qanat.edge.push_dialogue import WrongFrameError
from qanat.edge.push_session import Place, PushSession
from qanat.edge.resume import OUT_OF_RANGE, Resumed
from qanat.model.errors import OffsetOutOfRangeError, QanatError
from qanat.model.ids import Offset, TopicPartition
from qanat.servers.push.deliveries import Deliveries
from qanat.servers.push.partition_reads import (
    ReadBatches,
    fetch_from_leader,
    first_offset,
    read_cold,
    read_here,
    resumed_elsewhere,
    resumed_here,
)
from qanat.servers.push.refreshing import SubscriberRefreshes
from qanat.wire.push.control import Ack, CommitOffset, Mode, Reset, Start, Subscribe, encode_control
from qanat.wire.push.frames import FrameType

if TYPE_CHECKING:
    from qanat.servers.push.ports import PushClient

_READ_BYTES = 256 * 1024
"""Read of one partition at once; then others have their turn."""
_REBALANCE_MS = 30_000
_COMMIT_PAUSE_S = 0.05
"""Between commits of what is acknowledged: each is a durable write. COMMIT_OFFSET and revocations do not wait."""
_PAUSE_S = 0.25
"""Pause after a read of another broker that failed."""


class _Reader:
    """One assigned partition."""

    __slots__ = ("at", "deliveries", "is_checked", "partition", "task")

    def __init__(self, at: TopicPartition, deliveries: Deliveries) -> None:
        self.at = at
        self.deliveries = deliveries
        self.partition: Partition | None = None
        self.is_checked = False
        """Whether the subscriber's position was compared with the log that is read now."""
        self.task: asyncio.Task[None] | None = None
        """A read that waits for the disk or for another broker."""


class LogSubscription:
    """One subscriber; also the listener of its membership."""

    def __init__(self, connection: PushClient, wanted: Subscribe) -> None:
        self._connection = connection
        self._cluster = connection.cluster
        self._broker = connection.cluster.broker
        self._wanted = wanted
        self._topics = {name: index for index, name in enumerate(wanted.wanted)}
        self.mode = wanted.chosen_mode
        self.group = wanted.group
        credit = CreditWindow(wanted.credit.records, wanted.credit.bytes)
        self.session = PushSession(credit, connection.now_ms(), is_committing=self.mode is Mode.LOG)
        self._readers: dict[TopicPartition, _Reader] = {}
        self._positions = {TopicPartition(one.topic, one.partition): one for one in wanted.positions}
        self._membership: ConsumerMembership | None = None
        self._is_scheduled = False
        self._loop = asyncio.get_running_loop()
        self._commit_task: asyncio.Task[None] | None = None
        self._commit_timer: asyncio.TimerHandle | None = None
        self._commit_answers: list[int] = []
        self.is_over = False
        self._refreshes = SubscriberRefreshes(
            connection, self.session, lambda: self._broker.push_refreshes, self.group, self
        )

    # Beginning and end

    async def start(self) -> None:
        """Take the partitions, or join the group; raises where that is refused."""
        if self.mode is Mode.LOG:
            terms = PlaceTerms(rebalance_ms=_REBALANCE_MS)
            member_id = str(uuid.uuid4())
            self._membership = ConsumerMembership(self._cluster, self.group, list(self._topics), self, terms, member_id)
            self._membership.start()
            self._spawn(self._watch_membership(self._membership))
            return
        for topic, count in self._connection.partition_counts.items():
            await self.assigned([TopicPartition(topic, number) for number in range(count)])

    async def _watch_membership(self, membership: ConsumerMembership) -> None:
        try:
            await membership.wait_failed()
        except QanatError as fault:
            self._connection.end("group-refused", str(fault))

    async def close(self) -> None:
        """Leave the group; what is acknowledged is committed first."""
        self.is_over = True
        for reader in self._readers.values():
            self._release(reader)
        self._readers.clear()
        if self._membership is not None:
            await self._membership.close()
        if self._commit_task is not None:
            await asyncio.wait([self._commit_task])
        if self._commit_timer is not None:
            self._commit_timer.cancel()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return self._connection.spawn(work)

    # The group

    async def assigned(self, partitions: list[TopicPartition]) -> None:
        places = await self._places(partitions)
        for at, place in places.items():
            if self.is_over:
                return
            self.session.assign(at, place)
            deliveries = Deliveries(
                self.session,
                at,
                self._topics[at.topic],
                is_plain=self._connection.is_plain,
                has_batches=1 in self._wanted.forms,
            )
            self._readers[at] = _Reader(at, deliveries)
        self._look()
        self.pump()

    async def _places(self, partitions: list[TopicPartition]) -> dict[TopicPartition, Place]:
        found: dict[TopicPartition, Place] = {}
        if self.mode is Mode.LOG:
            committed = await committed_positions(
                self._cluster, self.group, self._cluster.deadline(), only=partitions, is_stable=True
            )
            found = {at: Place(one.offset, one.leader_epoch) for at, one in committed.items()}
        for at in partitions:
            if at not in found and at in self._positions and self._positions[at].offset >= 0:
                found[at] = Place(self._positions[at].offset, self._positions[at].epoch)
            elif at not in found:
                is_earliest = self._wanted.start is Start.EARLIEST
                found[at] = Place(await first_offset(self._cluster, at, is_earliest=is_earliest))
        return found

    async def revoked(self, partitions: list[TopicPartition]) -> None:
        for at in partitions:
            self._forget_reader(at)
            self._refreshes.revoked(at)
            self.session.revoke(at)
        while self.session.has_commits:
            self._commit_now()
            assert self._commit_task is not None
            await asyncio.wait([self._commit_task])
        for at in partitions:
            self.session.forget(at)

    async def lost(self, partitions: list[TopicPartition]) -> None:
        for at in partitions:
            self._forget_reader(at)
            self._refreshes.lost(at)
            self.session.forget(at)

    def _forget_reader(self, at: TopicPartition) -> None:
        reader = self._readers.pop(at, None)
        if reader is not None:
            self._release(reader)

    def _release(self, reader: _Reader) -> None:
        if reader.partition is not None:
            reader.partition.stop_waiting(self._wake)
        if reader.task is not None:
            reader.task.cancel()

    # Frames of the client

    def acknowledge(self, frame_id: int, ack: Ack | None) -> None:
        if ack is not None and ack.credit is not None:
            self.session.credit.max_records = ack.credit.records
            self.session.credit.max_bytes = ack.credit.bytes
        now_ms = self._connection.now_ms()
        if self.session.is_answer(frame_id, now_ms):
            self._refreshes.acknowledge(frame_id, ack)
        else:
            self.session.acknowledge(frame_id, now_ms)
            if self._refreshes:
                self._refreshes.go_on()
        self._commit_soon()
        self._schedule()

    def commit(self, frame_id: int, wanted: CommitOffset) -> None:
        """COMMIT_OFFSET; answered once it is durable."""
        rows = wanted.positions
        places = {TopicPartition(one.topic, one.partition): Place(one.offset, one.epoch) for one in rows}
        if not rows:
            topic = wanted.topic or next(iter(self._topics))
            places = {TopicPartition(topic, wanted.partition): Place(wanted.offset)}
        try:
            self.session.commit(places)
        except WrongFrameError as fault:
            refusal = Ack(error=fault.reason, message=str(fault))
            self._connection.send(FrameType.ACK, frame_id, encode_control(refusal))
            return
        self._commit_answers.append(frame_id)
        self._commit_now()

    def _commit_soon(self) -> None:
        """Commit what is acknowledged, unless the last commit has only just ended."""
        if self._commit_timer is None:
            self._commit_now()

    def _commit_now(self) -> None:
        if (self._commit_task is None or self._commit_task.done()) and self.session.has_commits:
            self._commit_task = self._loop.create_task(self._commit())

    def _pause_over(self) -> None:
        self._commit_timer = None
        self._commit_now()

    async def _commit(self) -> None:
        """Commit what is acknowledged, and go on while a COMMIT_OFFSET waits for its answer."""
        assert self._membership is not None, "only a member commits"
        while (places := self.session.next_commit()) is not None:
            answers, self._commit_answers = self._commit_answers, []
            offsets = {at: CommittedOffset(place.offset, place.epoch) for at, place in places.items()}
            is_durable, why = False, "the group gave the partition to another member"
            try:
                is_durable = await self._membership.commit(offsets)
            except QanatError as fault:
                why = str(fault)
            self.session.commit_ended(is_durable=is_durable)
            if self._refreshes:
                self._refreshes.commit_ended(offsets, is_durable=is_durable)
            answer = Ack() if is_durable else Ack(error="not-committed", message=why)
            for frame_id in answers:
                self._connection.send(FrameType.ACK, frame_id, encode_control(answer))
            if self._commit_timer is None and not self.is_over:
                self._commit_timer = self._loop.call_later(_COMMIT_PAUSE_S, self._pause_over)
            if not self._commit_answers:
                return

    # Refreshes

    def tick(self) -> None:
        """Look at the ledger, and repeat what was not answered."""
        self._look()
        if self.is_behind:
            self.pump()

    def _look(self) -> None:
        if self.mode is Mode.LOG:
            self._refreshes.look(self._topics)

    def replay(self, partitions: Iterable[TopicPartition]) -> None:
        """RESET is acknowledged: each partition begins at its new place, which is compared with the log first."""
        for at in partitions:
            if (reader := self._readers.get(at)) is not None:
                if reader.partition is not None:
                    reader.partition.stop_waiting(self._wake)
                reader.partition, reader.is_checked = None, False
                reader.deliveries.forget()
        self._schedule()

    @property
    def refresh(self) -> str:
        """How far its refreshes are."""
        return self._refreshes.summary

    def is_overdue(self, now_ms: int) -> bool:
        return self.session.is_overdue(now_ms)

    @property
    def is_behind(self) -> bool:
        """Whether a partition has records that have not left, or its leader must be looked for."""
        for at, reader in self._readers.items():
            partition, cursor = reader.partition, self.session.cursors.get(at)
            if partition is None or partition.is_retired or cursor is None:
                return True
            if cursor.place.offset != partition.end_of_reading(is_committed=True):
                return True
        return False

    @property
    def lag(self) -> int:
        """Records that can be read and have not left, of partitions that this broker leads."""
        found = 0
        for at, cursor in self.session.cursors.items():
            partition = self._broker.partitions.get(at)
            if partition is not None:
                found += max(partition.end_of_reading(is_committed=True) - cursor.place.offset, 0)
        return found

    @property
    def acknowledged_id(self) -> int:
        return self.session.acknowledged_id

    @property
    def credit(self) -> CreditWindow:
        return self.session.credit

    @property
    def out_records(self) -> int:
        return self.session.credit.out_records

    # Deliveries

    def _wake(self) -> None:
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled and not self.is_over:
            self._is_scheduled = True
            self._loop.call_soon(self._run_scheduled)

    def _run_scheduled(self) -> None:
        self._is_scheduled = False
        self.pump()

    def pump(self) -> None:
        """Send what may be sent."""
        for reader in list(self._readers.values()):
            if self.is_over or not self._connection.can_write:
                return
            if reader.task is None and self.session.may_send(reader.at):
                self._pump_one(reader)

    def _pump_one(self, reader: _Reader) -> None:
        if not self._connection.may_read(reader.at.topic):
            self._connection.end("not-authorized", f"topic {reader.at.topic} may not be read any more")
            return
        partition = self._led(reader)
        if partition is None:
            return
        try:
            found = read_here(partition, self.session.cursors[reader.at].place.offset, self._room)
        except OffsetOutOfRangeError:
            self._resume(reader, resumed_here(partition, self.session.cursors[reader.at].place))
            return
        except QanatError:
            reader.partition = None  # The leadership ended meanwhile; the next tick looks for the leader again.
            return
        if found is None:
            offset = self.session.cursors[reader.at].place.offset
            self._begin(reader, self._read_later(reader, read_cold(partition, offset, self._room)))
        elif not found.views:
            partition.wait_for_more(self._wake)
        else:
            self._deliver(reader, found)
            if self.session.may_send(reader.at):
                self._schedule()

    @property
    def _room(self) -> int:
        return min(max(self.session.credit.left_bytes, 1), _READ_BYTES)

    def _led(self, reader: _Reader) -> Partition | None:
        """The partition where this broker leads it; otherwise a fetch from its leader begins."""
        if reader.partition is not None and not reader.partition.is_retired:
            return reader.partition
        reader.partition, reader.is_checked = None, False
        found = self._broker.lookup.led(*reader.at)
        place = self.session.cursors[reader.at].place
        if isinstance(found, Partition) and found.knows_high_watermark:
            reader.partition, reader.is_checked = found, True
            self._clip(reader, resumed_here(found, self._end_of(reader)))
            resumed = resumed_here(found, place)
            if resumed.why:
                self._resume(reader, resumed)
                return None
            return found
        if not isinstance(found, Partition):
            self._begin(reader, self._read_elsewhere(reader))
        return None

    def _end_of(self, reader: _Reader) -> Place:
        """Where a replay ends; the place itself where there is none."""
        cursor = self.session.cursors[reader.at]
        return Place(cursor.limit, cursor.limit_epoch) if cursor.is_replaying else cursor.place

    def _clip(self, reader: _Reader, end: Resumed) -> None:
        """The end of a replay was compared with the log: it may have been cut below it."""
        if end.why and self.session.cursors[reader.at].is_replaying:
            self.session.clip(reader.at, end.offset)
            self._refreshes.go_on()

    def _resume(self, reader: _Reader, resumed: Resumed) -> None:
        """Tell the client that its position is void."""
        if self.session.cursors[reader.at].reset_id:
            return  # A refresh has begun meanwhile; it begins at its own place.
        reader.is_checked = True
        epoch = -1
        if reader.partition is not None and resumed.offset > 0:
            epoch = int(reader.partition.log.epochs.epoch_at(Offset(resumed.offset - 1)))
        why = resumed.why or OUT_OF_RANGE
        frame_id = self.session.reset(reader.at, Place(resumed.offset, epoch), self._connection.now_ms())
        refresh = self._refreshes.id_of(reader.at)
        reset = Reset(why, reader.at.topic, reader.at.partition, resumed.offset, epoch, refresh)
        self._connection.send(FrameType.RESET, frame_id, encode_control(reset))

    def _deliver(self, reader: _Reader, found: ReadBatches) -> None:
        room = self._connection.room
        chunks = reader.deliveries.frames(found.views, found.aborted, self._connection.now_ms(), room)
        if chunks:
            self._connection.send_chunks(chunks)
        if self._refreshes:
            self._refreshes.go_on()

    # Reads that wait

    def _begin(self, reader: _Reader, work: Coroutine[Any, Any, None]) -> None:
        reader.task = self._spawn(work)
        reader.task.add_done_callback(lambda _: self._ended(reader))

    def _ended(self, reader: _Reader) -> None:
        reader.task = None
        if self._readers.get(reader.at) is reader:
            self._schedule()

    def _assignment(self, reader: _Reader) -> int:
        """Another one: what was read before begins elsewhere."""
        cursor = self.session.cursors.get(reader.at)
        return -1 if cursor is None else cursor.assignment

    async def _read_later(self, reader: _Reader, read: Coroutine[Any, Any, ReadBatches]) -> None:
        assignment = self._assignment(reader)
        try:
            found = await read
        except QanatError:
            reader.partition = None
            await asyncio.sleep(_PAUSE_S)
            return
        is_here = self._readers.get(reader.at) is reader and self._assignment(reader) == assignment
        if is_here and self.session.may_send(reader.at):
            self._deliver(reader, found)

    async def _read_elsewhere(self, reader: _Reader) -> None:
        """One fetch from the leader; the next pump begins another one, or finds that this broker leads."""
        image = self._broker.metadata.image
        topic = image.topics.get(reader.at.topic)
        try:
            known = topic is not None and reader.at.partition < len(topic.partitions)
            leader = image.state(topic, reader.at.partition).leader if known and topic is not None else -1
            if leader < 0 or leader == self._broker.node_id:
                await asyncio.sleep(_PAUSE_S)
                return
            place = self.session.cursors[reader.at].place
            if self.session.cursors[reader.at].is_replaying:
                end = await resumed_elsewhere(self._cluster, leader, reader.at, self._end_of(reader))
                if reader.at in self.session.cursors:
                    self._clip(reader, end)
            resumed = await resumed_elsewhere(self._cluster, leader, reader.at, place)
            if resumed.why and reader.at in self.session.cursors:
                self._resume(reader, resumed)
                return
            assignment = self._assignment(reader)
            while self._readers.get(reader.at) is reader and self.session.may_send(reader.at):
                place = self.session.cursors[reader.at].place
                found = await fetch_from_leader(self._cluster, leader, reader.at, place.offset, self._room)
                if self._readers.get(reader.at) is not reader or self._assignment(reader) != assignment:
                    return
                if found.views and self.session.may_send(reader.at):
                    self._deliver(reader, found)
                if not self._connection.can_write:
                    return
        except QanatError:
            await asyncio.sleep(_PAUSE_S)
