"""The partitions of a subscription in mode `log` or `all`: each is read where its leader is, and its records leave.

`edge.push_session` decides what may leave. A partition that this broker leads is read from its log; any other one is
fetched from its leader. Whenever another broker or leadership serves a partition, the subscriber's position is compared
with its log first.

Rule 1: an append only schedules the delivery, so that it goes on first; whatever else is appended in the same turn of
        the event loop leaves with it.
Rule 2: before every delivery the permission to read is looked up: a removed one ends the subscription.
Rule 3: a topic that was deleted and made again is another topic: the subscriber is told by RESET before any record of
        it, and no position in the former one counts for it.
Rule 4: where nothing leaves, something is waited for: an ACK, more records, a leader, or the end of the connection.
Rule 5: a subscriber that owes answers has records in hand: its next ones leave in the common late pass, at once when it
        has answered half of them, and not at all while three quarters of its credit are out. So what slow consumers
        cost does not depend on how often records are written, and quick ones go first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from qanat.broker.replicas.committed_reads import ReadBatches, read_cold, read_here
from qanat.broker.replicas.partition import Partition
from qanat.edge.push_session import Place, PushSession
from qanat.edge.resume import OUT_OF_RANGE, RECREATED, Resumed
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import CorruptBatchError, CorruptLogError, OffsetOutOfRangeError, QanatError, StorageError
from qanat.model.ids import Offset, TopicId, TopicPartition
from qanat.servers.push.deliveries import UNREADABLE, Deliveries
from qanat.servers.push.partition_reads import fetch_from_leader, resumed_elsewhere, resumed_here
from qanat.wire.push.control import Reset, Subscribe, encode_control
from qanat.wire.push.frames import FrameType

if TYPE_CHECKING:
    from qanat.servers.push.fresh_batches import FreshBatch
    from qanat.servers.push.ports import PushClient
    from qanat.servers.push.refreshing import SubscriberRefreshes

_READ_BYTES = 256 * 1024
"""Read of one partition at once; then others have their turn."""
_LATE_READ_BYTES = 4 * 1024
_LATE_BYTES = 1024
"""Of single records that leave at once in the late pass, so that it holds the event loop for a moment only."""
_PAUSE_S = 0.25
"""Pause after a read that failed."""
DAMAGE_TIMEOUT_MS = 5_000
"""How long damage is waited for where another replica may take over, which repairs it."""
_DAMAGED = (ErrorCode.CORRUPT_MESSAGE, ErrorCode.KAFKA_STORAGE_ERROR)
"""How another broker says so."""


class _Reader:
    """One assigned partition."""

    __slots__ = ("at", "damaged_ms", "deliveries", "is_committed", "is_full", "partition", "task", "wake")

    def __init__(
        self, at: TopicPartition, deliveries: Deliveries, wake: Callable[[_Reader], None], *, is_committed: bool
    ) -> None:
        self.at = at
        self.wake: Callable[[], None] = partial(wake, self)
        """What its partition calls when there is more to read."""
        self.deliveries = deliveries
        self.is_committed = is_committed
        """Whether its place is a commit of the group."""
        self.partition: Partition | None = None
        self.task: asyncio.Task[None] | None = None
        """A read that waits for the disk or for another broker."""
        self.is_full = False
        """Whether what comes next does not fit into the credit that is left."""
        self.damaged_ms: int | None = None
        """Since when what comes next is damaged."""


class PartitionReaders:
    """All partitions of one subscriber."""

    refreshes: SubscriberRefreshes

    def __init__(self, connection: PushClient, session: PushSession, wanted: Subscribe) -> None:
        self._connection = connection
        self._cluster = connection.cluster
        self._broker = connection.cluster.broker
        self._session = session
        self._topics = {name: index for index, name in enumerate(wanted.wanted)}
        self._has_batches = 1 in wanted.forms
        self._readers: dict[TopicPartition, _Reader] = {}
        self._behind: dict[TopicPartition, _Reader] = {}
        """Those that are not known to have sent everything; the others wait for more records."""
        self.topic_ids: dict[TopicPartition, str] = {}
        """The topic that the latest place of each partition is about, of former assignments as well."""
        self._known_ids = {
            TopicPartition(one.topic, one.partition): one.topic_id for one in wanted.positions if one.topic_id
        }
        """The topic that the client takes a partition's records for, where that is not what SUBSCRIBE was answered."""
        self._is_scheduled = False
        self._is_late = False
        """Whether this is the late pass."""
        self._sent_out = 0
        """Records that were without an ACK when the last ones left."""
        self._loop = asyncio.get_running_loop()
        self.is_over = False

    # Partitions come and go

    def add(self, at: TopicPartition, topic_id: str, *, is_committed: bool = False) -> None:
        """Deliver a partition; the session knows from where, of the topic with this id."""
        self.topic_ids[at] = topic_id
        deliveries = Deliveries(
            self._session,
            at,
            self._topics[at.topic],
            self._connection.server.payloads,
            is_plain=self._connection.is_plain,
            has_batches=self._has_batches,
        )
        self._readers[at] = self._behind[at] = _Reader(at, deliveries, self._wake, is_committed=is_committed)

    def remove(self, at: TopicPartition) -> None:
        reader = self._readers.pop(at, None)
        if reader is not None:
            self._behind.pop(at, None)
            self._release(reader)

    def close(self) -> None:
        self.is_over = True
        for reader in self._readers.values():
            self._release(reader)
        self._readers.clear()
        self._behind.clear()

    def _release(self, reader: _Reader) -> None:
        if reader.partition is not None:
            reader.partition.stop_waiting(reader.wake)
        if reader.task is not None:
            reader.task.cancel()

    def replay(self, partitions: Iterable[TopicPartition]) -> None:
        """Each of them begins at a new place, which is compared with the log first."""
        for at in partitions:
            if (reader := self._readers.get(at)) is not None:
                if reader.partition is not None:
                    reader.partition.stop_waiting(reader.wake)
                reader.partition, reader.is_full = None, False
                reader.deliveries.forget()
                self._behind[at] = reader
        self.schedule()

    def look(self) -> None:
        """Time has passed: leaders may be known now."""
        for at, reader in self._readers.items():
            partition, cursor = reader.partition, self._session.cursors.get(at)
            has_leader = partition is not None and not partition.is_retired
            end_offset = partition.end_of_reading(is_committed=True) if partition is not None else -1
            if not has_leader or cursor is None or cursor.place.offset != end_offset:
                self._behind[at] = reader
        if self._behind and self._session.is_lagging(self._connection.now_ms()):
            self._connection.deliver_late()
        elif self._behind:
            self.pump()

    @property
    def wants_look(self) -> bool:
        """Whether a leader must be looked for again, which nothing else reminds of."""
        return any(reader.partition is None and reader.task is None for reader in self._behind.values())

    # Deliveries

    def schedule(self) -> None:
        """Deliver in the next turn of the event loop."""
        if not self._is_scheduled and not self.is_over:
            self._is_scheduled = True
            self._loop.call_soon(self._connection.run, self._run_scheduled)

    def _run_scheduled(self) -> None:
        self._is_scheduled = False
        self.pump()

    def _wake(self, reader: _Reader) -> None:
        """There is more to read."""
        self._behind[reader.at] = reader
        if self._session.is_lagging(self._connection.now_ms()):
            self._connection.deliver_late()
        else:
            self.schedule()

    def _wait(self, reader: _Reader, partition: Partition) -> None:
        """Everything has left."""
        self._behind.pop(reader.at, None)
        partition.wait_for_more(reader.wake)

    def credit_given(self) -> None:
        """The client has acknowledged: what did not fit may fit now."""
        if not self._behind:
            return
        for reader in self._behind.values():
            reader.is_full = False
        credit = self._session.credit
        has_used_half = 2 * credit.out_records <= self._sent_out
        if has_used_half or not self._session.is_lagging(self._connection.now_ms()):
            self.schedule()
        elif not credit.is_mostly_out:
            self._connection.deliver_late()

    def pump_late(self) -> None:
        """Send a little of what may be sent; the rest in the next late pass."""
        self._is_late = True
        try:
            self.pump()
        finally:
            self._is_late = False

    def pump(self) -> None:
        """Send what may be sent."""
        for reader in list(self._behind.values()):
            if self.is_over or not self._connection.can_write:
                return
            if reader.task is None and not reader.is_full and self._session.may_send(reader.at):
                self._pump_one(reader)

    def _pump_one(self, reader: _Reader) -> None:
        if not self._may_read(reader):
            return
        partition = self._led(reader)
        if partition is None:
            return
        try:
            self._read(reader, partition, self._session.cursors[reader.at].place.offset)
        except OffsetOutOfRangeError:
            self._resume(reader, resumed_here(partition, self._session.cursors[reader.at].place))
        except (CorruptBatchError, CorruptLogError) as fault:
            self._note_damage(reader, fault)
            self._begin(reader, self._pause(reader))
        except QanatError:
            reader.partition = None  # The leadership ended meanwhile; the next tick looks for the leader again.
            self._connection.attend()

    def _may_read(self, reader: _Reader) -> bool:
        """Whether the next records may leave (rule 2); also after a read that has waited."""
        if self._connection.may_read(reader.at.topic):
            return True
        self._connection.end("not-authorized", f"topic {reader.at.topic} may not be read any more")
        return False

    def _read(self, reader: _Reader, partition: Partition, offset: int) -> None:
        """Send what is in memory, preferably as it was appended just now."""
        end_offset = partition.end_of_reading(is_committed=True)
        fresh = self._connection.server.fresh.find(partition, offset, end_offset)
        if fresh is not None and self._deliver_fresh(reader, partition, fresh, end_offset):
            return
        found = read_here(partition, offset, self._room) if fresh is None else ReadBatches((fresh.view,), (), offset)
        if found is None:
            self._begin(reader, self._read_later(reader, read_cold(partition, offset, self._room)))
        elif not found.views:
            self._wait(reader, partition)
        elif self._deliver(reader, found):
            if self._session.cursors[reader.at].place.offset >= partition.end_of_reading(is_committed=True):
                self._wait(reader, partition)
            elif self._is_late:
                self._connection.deliver_late()
            elif self._session.may_send(reader.at):
                self.schedule()

    def _deliver_fresh(self, reader: _Reader, partition: Partition, fresh: FreshBatch, end_offset: int) -> bool:
        """Send a batch as it was appended just now; whether that was possible."""
        chunks = reader.deliveries.fresh_frame(fresh, self._connection.now_ms())
        if chunks is None:
            return False
        self._connection.send_chunks(chunks)
        self._left()
        reader.damaged_ms = None
        if fresh.next_offset >= end_offset:
            self._wait(reader, partition)
        else:
            self.schedule()
        return True

    @property
    def _room(self) -> int:
        return min(max(self._session.credit.left_bytes, 1), _LATE_READ_BYTES if self._is_late else _READ_BYTES)

    def _deliver(self, reader: _Reader, found: ReadBatches) -> bool:
        """Send what fits; whether that was anything. Raises `CorruptBatchError` where it cannot be read."""
        before = self._session.cursors[reader.at].place.offset
        room = min(self._connection.room, _LATE_BYTES) if self._is_late else self._connection.room
        chunks = reader.deliveries.frames(found.views, found.aborted, self._connection.now_ms(), room)
        if chunks:
            self._connection.send_chunks(chunks)
            self._left()
        if self.refreshes:
            self.refreshes.go_on()
        if self._session.cursors[reader.at].place.offset != before:
            reader.damaged_ms = None
            return True
        if not self._session.credit.out_records:
            raise CorruptBatchError(f"{reader.at}: there is no batch at offset {before} where one should be")
        reader.is_full = True
        return False

    def _left(self) -> None:
        """Frames have left."""
        self._sent_out = self._session.credit.out_records
        if not self._is_late:
            self._connection.server.records_left()

    def _note_damage(self, reader: _Reader, fault: QanatError) -> None:
        """The next records are damaged: another replica may lead soon, and repair them; or the subscriber is told."""
        now_ms = self._connection.now_ms()
        if reader.damaged_ms is None:
            reader.damaged_ms = now_ms
        image = self._broker.metadata.image
        topic = image.topics.get(reader.at.topic)
        has_others = topic is not None and len(image.state(topic, reader.at.partition).replicas) > 1
        if not has_others or now_ms - reader.damaged_ms >= DAMAGE_TIMEOUT_MS:
            offset = self._session.cursors[reader.at].place.offset
            self._connection.end(UNREADABLE, f"{reader.at} cannot be read on at offset {offset}: {fault}")

    # Leaders

    def _led(self, reader: _Reader) -> Partition | None:
        """The partition where this broker leads it; otherwise a fetch from its leader begins."""
        if reader.partition is not None and not reader.partition.is_retired:
            return reader.partition
        reader.partition = None
        found = self._broker.lookup.led(*reader.at)
        if found is ErrorCode.KAFKA_STORAGE_ERROR:
            offline = StorageError(
                f"its log on broker {self._broker.node_id} cannot be opened: qanat log verify says why"
            )
            self._note_damage(reader, offline)
            self._begin(reader, self._pause(reader))
            return None
        if not isinstance(found, Partition):
            self._begin(reader, self._read_elsewhere(reader))
            return None
        if not found.knows_high_watermark:
            self._connection.attend()
            return None
        if not self._is_of(reader, str(TopicId.of(found.topic_id)), found.log.log_start_offset):
            return None
        reader.partition = found
        self._clip(reader, resumed_here(found, self._end_of(reader)))
        resumed = resumed_here(found, self._session.cursors[reader.at].place)
        if resumed.why:
            self._resume(reader, resumed)
            return None
        return found

    def _is_of(self, reader: _Reader, topic_id: str, start: int) -> bool:
        """Whether the client and its place are of the topic that is served; a RESET leaves where they are not."""
        at = reader.at
        known = self._known_ids.get(at) or self._connection.topic_ids.get(at.topic) or topic_id
        about = self.topic_ids[at] or topic_id
        self.topic_ids[at] = topic_id
        if known == about == topic_id:
            return True
        cursor = self._session.cursors[at]
        if not cursor.is_replaying and not cursor.reset_id:  # Otherwise its refresh is over, which ends the connection.
            self._known_ids[at] = topic_id
            reader.deliveries.forget()
            is_valid = about == topic_id and reader.is_committed
            self._reset(reader, RECREATED, cursor.place if is_valid else Place(start))
        return False

    def _end_of(self, reader: _Reader) -> Place:
        """Where a replay ends; the place itself where there is none."""
        cursor = self._session.cursors[reader.at]
        return Place(cursor.limit, cursor.limit_epoch) if cursor.is_replaying else cursor.place

    def _clip(self, reader: _Reader, end: Resumed) -> None:
        """The end of a replay was compared with the log: it may have been cut below it."""
        if end.why and self._session.cursors[reader.at].is_replaying:
            self._session.clip(reader.at, end.offset)
            self.refreshes.go_on()

    def _resume(self, reader: _Reader, resumed: Resumed) -> None:
        """Tell the client that its position is void."""
        if self._session.cursors[reader.at].reset_id:
            return  # A refresh has begun meanwhile; it begins at its own place.
        epoch = -1
        if reader.partition is not None and resumed.offset > 0:
            epoch = int(reader.partition.log.epochs.epoch_at(Offset(resumed.offset - 1)))
        self._reset(reader, resumed.why or OUT_OF_RANGE, Place(resumed.offset, epoch))

    def _reset(self, reader: _Reader, why: str, place: Place) -> None:
        at = reader.at
        frame_id = self._session.reset(at, place, self._connection.now_ms())
        reset = Reset(
            why,
            at.topic,
            at.partition,
            place.offset,
            place.epoch,
            self.refreshes.id_of(at),
            topic_id=self.topic_ids[at] if why == RECREATED else "",
        )
        self._connection.send(FrameType.RESET, frame_id, encode_control(reset))

    # Reads that wait

    def _begin(self, reader: _Reader, work: Coroutine[Any, Any, None]) -> None:
        reader.task = self._connection.spawn(work)
        reader.task.add_done_callback(lambda _: self._ended(reader))

    def _ended(self, reader: _Reader) -> None:
        reader.task = None
        if self._readers.get(reader.at) is reader:
            self.schedule()

    async def _pause(self, reader: _Reader) -> None:
        """Look for the leader again, a moment later."""
        reader.partition = None
        await asyncio.sleep(_PAUSE_S)

    def _assignment(self, reader: _Reader) -> int:
        """Another one: what was read before begins elsewhere."""
        cursor = self._session.cursors.get(reader.at)
        return -1 if cursor is None else cursor.assignment

    def _is_current(self, reader: _Reader, assignment: int) -> bool:
        return self._readers.get(reader.at) is reader and self._assignment(reader) == assignment

    async def _read_later(self, reader: _Reader, read: Coroutine[Any, Any, ReadBatches]) -> None:
        assignment = self._assignment(reader)
        try:
            found = await read
            if not self._is_current(reader, assignment) or not self._may_read(reader):
                return
            if self._session.may_send(reader.at) and found.views:
                self._deliver(reader, found)
        except (CorruptBatchError, CorruptLogError) as fault:
            if self._is_current(reader, assignment):
                self._note_damage(reader, fault)
            await self._pause(reader)
        except QanatError:
            await self._pause(reader)

    async def _read_elsewhere(self, reader: _Reader) -> None:
        """Fetches from the leader; the next pump begins again, or finds that this broker leads."""
        image = self._broker.metadata.image
        topic = image.topics.get(reader.at.topic)
        try:
            known = topic is not None and reader.at.partition < len(topic.partitions)
            leader = image.state(topic, reader.at.partition).leader if known and topic is not None else -1
            if topic is None or leader < 0 or leader == self._broker.node_id:
                await asyncio.sleep(_PAUSE_S)
                return
            await self._fetch(reader, leader, topic.topic_id)
        except QanatError as fault:
            if fault.code in _DAMAGED and self._readers.get(reader.at) is reader:
                self._note_damage(reader, fault)
            await self._pause(reader)

    async def _fetch(self, reader: _Reader, leader: int, topic_id: str) -> None:
        at, session = reader.at, self._session
        place, end = session.cursors[at].place, self._end_of(reader)
        assignment = self._assignment(reader)
        if session.cursors[at].is_replaying:
            clipped = await resumed_elsewhere(self._cluster, leader, at, end)
            if self._is_current(reader, assignment):
                self._clip(reader, clipped[0])
        resumed, start = await resumed_elsewhere(self._cluster, leader, at, place)
        if not self._is_current(reader, assignment) or not self._is_of(reader, topic_id, start):
            return
        if resumed.why:
            self._resume(reader, resumed)
            return
        while self._is_current(reader, assignment) and session.may_send(at) and not reader.is_full:
            where = at, topic_id, session.cursors[at].place.offset
            found = await fetch_from_leader(self._cluster, leader, where, self._room)
            if not self._is_current(reader, assignment) or not self._may_read(reader):
                return
            if found.views and session.may_send(at):
                self._deliver(reader, found)
            if not self._connection.can_write:
                return
