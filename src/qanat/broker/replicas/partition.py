# cython: language_level=3, annotation_typing=False
"""A partition that this broker leads: appends and their acknowledgements, reads and the fetches that wait.

An append takes effect at once; an acknowledgement that needs the disk is a future. The high watermark follows what is
durable, or the end of the log where the topic leaves flushing to the kernel. With followers, it follows what every
member of the in-sync set has (`replication.leader`), and so do acknowledgements.

Rule 1: once this exists, the high watermark moves only in `_advance_to`, the only place that wakes waiting consumers.
        Followers wait for the end of the log; every append wakes them.
Rule 2: one object is one leadership. When it is over (`retire`), everything that waits ends with an error.
Rule 3: a new leader's high watermark is the one that it had as a follower, which lags behind what its predecessor
        acknowledged. Code that decides by what a partition holds first checks `knows_high_watermark`, or waits for it
        (`have_high_watermark`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from operator import itemgetter
from typing import NamedTuple

from qanat.broker.replicas.outbox_room import OutboxRoom
from qanat.broker.settings.topic_settings import TopicSettings
from qanat.log.appended import Appended
from qanat.log.files import Buffer
from qanat.log.log_reads import LogRead
from qanat.log.partition_log import PartitionLog
from qanat.log.runtime.log_runtime import LogRuntime
from qanat.log.runtime.sync_future import SyncFuture
from qanat.log.settings import TimestampType
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import MirroredTopicError, NotLeaderError, OffsetNotAvailableError, OffsetOutOfRangeError
from qanat.model.ids import NO_TIMESTAMP, LeaderEpoch
from qanat.replication.leader import Leader
from qanat.wire.control import Marker
from qanat.wire.kafka.fast_produce import FastHeader
from qanat.wire.staged import StagedFile

Wake = Callable[[], None]

# Looked up once: attribute access on an enumeration is slow.
_LOG_APPEND_TIME = TimestampType.LOG_APPEND_TIME
_OFFSET = itemgetter(0)


class Written:
    """A batch in the log, and the future that its acknowledgement by acks=all waits for."""

    __slots__ = ("append_time_ms", "base_offset", "durable")

    base_offset: int
    append_time_ms: int
    durable: SyncFuture[None] | None


def written_at(base_offset: int, append_time_ms: int, durable: SyncFuture[None] | None) -> Written:
    written = Written.__new__(Written)  # In C without a call.
    written.base_offset = base_offset
    written.append_time_ms = append_time_ms
    written.durable = durable
    return written


class EndMarker(NamedTuple):
    """How one producer's transaction ended."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_commit: bool
    transaction_version: int = 0


class Partition:
    """The leader's side of one partition."""

    __slots__ = (
        "_acknowledged",
        "_known",
        "_runtime",
        "_starting",
        "_waiting",
        "_waiting_followers",
        "at",
        "epoch_start",
        "is_mirror",
        "is_retired",
        "leader",
        "leader_epoch",
        "log",
        "min_insync_replicas",
        "outbox",
        "readable_bytes",
        "topic",
        "topic_id",
        "why_retired",
        "written_bytes",
    )

    def __init__(
        self,
        log: PartitionLog,
        runtime: LogRuntime,
        topic_id: bytes,
        leader_epoch: int,
        leader: Leader | None = None,
        *,
        is_mirror: bool = False,
    ) -> None:
        self.log = log
        self.is_mirror = is_mirror
        """Whether only a pipe writes to it, what its parent has. Its log has the epochs of the origin and none of ours:
        docs/decisions/0020-mirrored-topics.md."""
        self.at = log.topic_partition
        self.topic = self.at.topic
        """Its own field: the fast paths ask for permission by it, and a field of a tuple takes a lookup by name."""
        self.leader_epoch = leader_epoch
        self.leader = leader
        """How far the followers are; None where this is the sole replica."""
        self.written_bytes = 0
        """Bytes appended since the start: waiting fetches count by it."""
        self.readable_bytes = 0
        """`written_bytes` when everything written could last be read: never more than what can be read now."""
        self.is_retired = False
        """Whether its topic was deleted, or another replica leads: this object serves nothing any more."""
        self._runtime = runtime
        self._waiting: dict[Callable[[], None], None] = {}
        self._waiting_followers: dict[Callable[[], None], None] = {}
        self._acknowledged: deque[tuple[int, SyncFuture[None]]] = deque()
        """Waits for an offset to be committed, in order."""
        self.topic_id = topic_id
        self.min_insync_replicas = 1
        self.outbox: OutboxRoom | None = None
        """The room for records that wait for the parent of a tree; None where the topic is no outbox."""
        self.why_retired = ErrorCode.NONE
        self._known: SyncFuture[None] | None = None
        """Settled when the high watermark is known; one for all that wait, however often one times out."""
        self._starting: list[tuple[int, SyncFuture[None]]] = []
        """Waits for every member of the in-sync set to start at an offset."""
        if not is_mirror:
            log.become_leader(LeaderEpoch(leader_epoch))
        self.epoch_start = log.end_offset
        """Where the log ended when we began to lead."""
        if leader is None:
            log.advance_high_watermark(log.flushed_offset)

    def __repr__(self) -> str:
        return f"<Partition {self.at} epoch {self.leader_epoch} {self.log!r}>"

    def apply_settings(self, settings: TopicSettings) -> None:
        """Apply the topic's settings from now on."""
        self.log.apply_settings(settings.log)
        self.min_insync_replicas = settings.min_insync_replicas
        self._apply_outbox(settings)
        if self.leader is not None:
            self.leader.min_in_sync = settings.min_insync_replicas
        self.advance()

    def _apply_outbox(self, settings: TopicSettings) -> None:
        room = self.outbox
        if room is not None:
            room.freed()
        if not settings.up_target:
            self.outbox = None
        elif room is None:
            self.outbox = OutboxRoom(self.log, settings.up_target, settings.up_bytes_max, settings.up_wait_ms)
        else:
            room.target, room.bytes_max, room.wait_ms = settings.up_target, settings.up_bytes_max, settings.up_wait_ms

    @property
    def in_sync_replicas(self) -> int:
        """How many replicas have everything."""
        return 1 if self.leader is None else len(self.leader.in_sync)

    @property
    def needed_in_sync(self) -> int:
        """How many must have everything for acks=all to be accepted: all there are, where the setting asks for more.

        Kafka does so since 3.7: a topic with one replica accepts records whatever the cluster's `min.insync.replicas`.
        """
        return 1 if self.leader is None else min(self.min_insync_replicas, len(self.leader.replicas))

    @property
    def lacks_replicas(self) -> bool:
        """Whether too few are in sync for acks=all."""
        return self.leader is not None and self.in_sync_replicas < self.needed_in_sync

    @property
    def waiting_ends(self) -> list[int]:
        """Up to where appends must be committed whose acknowledgements wait, in order."""
        return [end_offset for end_offset, _ in self._acknowledged] if self._acknowledged else []

    # Writing

    def append_fast(self, batch: memoryview, header: FastHeader) -> Written | None:
        """`append_now` for a writable batch whose header and checksum are sound."""
        if self.is_retired or self.is_mirror:
            self._require_writable()
        if self.outbox is not None and self.outbox.must_wait:
            return None
        log = self.log
        appended = self._runtime.append_fast(log, batch, header, self.leader_epoch)
        if appended is None:
            return None
        if self.leader is not None or log.is_flushed or appended.is_duplicate:
            return self._written(appended, len(batch))
        # The same for a sole replica that leaves flushing to the kernel: written records can be read.
        self.written_bytes += len(batch)
        end_offset = appended.last_offset + 1
        self._advance_to(end_offset, end_offset)
        return written_at(appended.base_offset, NO_TIMESTAMP, None)

    def append_now(self, batch: Buffer) -> Written | None:
        """Append a client's batch; None where it must wait for room or the disk, or be decoded in a worker."""
        self._require_writable()
        if self.outbox is not None and self.outbox.must_wait:
            return None
        appended = self._runtime.append_now(self.log, batch, self.leader_epoch)
        return None if appended is None else self._written(appended, len(batch))

    async def append(self, batch: Buffer) -> Written:
        """`append_now`, waiting."""
        await self._have_room()
        self._require_writable()
        return self._written(await self._runtime.append(self.log, batch, self.leader_epoch), len(batch))

    async def ingest(self, staged: StagedFile) -> Written:
        """Ingest a file of batches on this broker's disk as a part of the log."""
        await self._have_room()
        self._require_writable()
        return self._written(*await self._runtime.ingest(self.log, staged, self.leader_epoch))

    def append_own(self, batch: Buffer) -> Written:
        """Append a batch that this broker has made: no client's limits apply."""
        self._require_writable()
        return self._written(self._runtime.append_own(self.log, batch, self.leader_epoch), len(batch))

    def append_marker(self, marker: EndMarker) -> asyncio.Future[None] | None:
        """End a producer's transaction here; returns the future of its being on disk, None where it is.

        Markers are flushed whatever the topic's settings: a lost marker would leave its transaction open for ever.
        Where another broker may lead by now, a marker that is there is written again: only what followers fetch proves
        that none does, and that the transaction that was ended here is the one that is meant.
        """
        self._require_writable()
        size = self._runtime.append_marker(
            self.log,
            marker.producer_id,
            marker.producer_epoch,
            Marker(marker.is_commit, marker.coordinator_epoch),
            self.leader_epoch,
            marker.transaction_version,
            is_repeated=self.leader is not None,
        )
        self.written_bytes += size
        if self.leader is not None:
            self._runtime.flush_soon(self.log)
            self._wake_followers()
            return self._when_committed(self.log.end_offset)
        flushed = self._runtime.when_flushed(self.log, self.log.end_offset)
        if not self.log.settings.is_flushed:
            self.advance()
        return flushed

    def append_mirrored(self, batches: Buffer) -> SyncFuture[None] | None:
        """Append what a mirror's parent has, offsets and epochs included; returns a future for its being durable here,
        None where it is.

        The state's epoch is at least that of every batch: clients compare it with what they have read.
        """
        self._require_present()
        assert self.is_mirror, f"{self.at} is no mirror"
        self._runtime.append_replicated(self.log, batches)
        self.written_bytes += len(batches)
        self._wake_followers()
        self.advance()
        return self.when_durable()

    async def _have_room(self) -> None:
        self._require_writable()
        if self.outbox is not None:
            await self.outbox.have_room()

    def _require_writable(self) -> None:
        """Refuse what a client, or a coordinator, would write to a mirror: producer ids of two clusters collide."""
        self._require_present()
        if self.is_mirror:
            raise MirroredTopicError(
                f"topic {self.at.topic} mirrors a topic of a parent and is read-only: write to the parent"
            )

    def _require_present(self) -> None:
        """A caller that has held this since before it was retired would be acknowledged by rules that no longer hold: a
        sole replica that gets followers is led in the same epoch, by another object."""
        if self.is_retired:
            raise self._not_leader()

    def _written(self, appended: Appended, size: int) -> Written:
        self._require_present()  # It may have been retired while the batch waited for the disk.
        if not appended.is_duplicate:
            self.written_bytes += size
        if self.leader is not None:
            return self._written_for_followers(appended)
        settings = self.log.settings
        is_log_time = settings.message_timestamp_type is _LOG_APPEND_TIME
        append_time_ms = self._runtime.clock_ms() if is_log_time else NO_TIMESTAMP
        durable = None
        if not settings.is_flushed:
            self.advance()
        elif appended.is_flush_due:
            durable = self._runtime.when_flushed(self.log, appended.last_offset + 1)
        return written_at(appended.base_offset, append_time_ms, durable)

    def _written_for_followers(self, appended: Appended) -> Written:
        is_log_time = self.log.settings.message_timestamp_type is _LOG_APPEND_TIME
        append_time_ms = self._runtime.clock_ms() if is_log_time else NO_TIMESTAMP
        self._wake_followers()
        self.advance()
        return written_at(appended.base_offset, append_time_ms, self._when_committed(appended.last_offset + 1))

    def _when_committed(self, end_offset: int) -> SyncFuture[None] | None:
        """When every member of the in-sync set has everything below; None where it has."""
        if end_offset <= self.log.high_watermark:
            return None
        waiting: SyncFuture[None] = SyncFuture()
        if self.is_retired:
            waiting.settle_with_fault(self._not_leader())
        elif self._acknowledged and self._acknowledged[-1][0] > end_offset:
            self._acknowledged = deque(sorted([*self._acknowledged, (end_offset, waiting)], key=_OFFSET))
        else:
            self._acknowledged.append((end_offset, waiting))
        return waiting

    def _not_leader(self) -> NotLeaderError:
        return NotLeaderError(f"this broker has stopped leading {self.at}: look for the leader again")

    def _wake_followers(self) -> None:
        if self._waiting_followers:
            waiting, self._waiting_followers = self._waiting_followers, {}
            for wake in waiting:
                wake()

    # The high watermark

    def advance(self) -> None:
        """Move the high watermark as far as it may go, and wake fetches that wait to read that far."""
        if self.is_retired:
            return
        log = self.log
        log_end = log.end_offset
        if self.leader is None:
            end_offset = log.flushed_offset if log.settings.is_flushed else log_end
        else:
            committed = self.leader.committed(log.flushed_offset if log.settings.is_synced else log_end)
            if committed is None:
                return
            end_offset = committed
        if end_offset > log.high_watermark:
            self._advance_to(end_offset, log_end)

    def _advance_to(self, end_offset: int, log_end: int) -> None:
        self.log.advance_high_watermark(end_offset)
        acknowledged = self._acknowledged
        while acknowledged and acknowledged[0][0] <= end_offset:
            acknowledged.popleft()[1].settle(None)
        if end_offset == log_end:
            self.readable_bytes = self.written_bytes
        if self._waiting:
            waiting, self._waiting = self._waiting, {}
            for wake in waiting:
                wake()

    def when_durable(self) -> SyncFuture[None] | None:
        """When everything appended so far is safe; None where it is, or where the topic does not promise that."""
        if self.leader is not None:
            return self._when_committed(self.log.end_offset)
        if not self.log.settings.is_flushed:
            return None
        return self._runtime.when_flushed(self.log, self.log.end_offset)

    def when_started(self, offset: int) -> SyncFuture[None] | None:
        """When no member of the in-sync set has records before an offset any more (KIP-107); None where that is so."""
        if self._is_started(offset):
            return None
        waiting: SyncFuture[None] = SyncFuture()
        if self.is_retired:
            waiting.settle_with_fault(self._not_leader())
        else:
            self._starting.append((offset, waiting))
        return waiting

    def _is_started(self, offset: int) -> bool:
        start = self.log.log_start_offset
        return offset <= (start if self.leader is None else self.leader.shared_start(start))

    def note_starts(self) -> None:
        """A follower has said where it starts, or the in-sync set has changed: settle the waits that this ends."""
        if self._starting:
            starting, self._starting = self._starting, []
            for offset, waiting in starting:
                if self._is_started(offset):
                    waiting.settle(None)
                else:
                    self._starting.append((offset, waiting))

    # Reading

    @property
    def knows_high_watermark(self) -> bool:
        """Whether the high watermark has reached where the log ended when this leader epoch began.

        Everything that any earlier leader has acknowledged lies below that end. Until the in-sync followers have
        confirmed it, records that were acknowledged are still hidden from consumers here (KIP-207).
        """
        return self.leader is None or self.log.high_watermark >= self.epoch_start

    def require_high_watermark(self) -> None:
        """Raise a retriable error where records that the last leader acknowledged are not all visible yet."""
        if not self.knows_high_watermark:
            raise OffsetNotAvailableError(f"{self.at}: the leader has just been elected; ask again")

    async def have_high_watermark(self, timeout_s: float | None = None) -> None:
        """Wait until everything that was acknowledged before this leader epoch is visible here.

        Raises `OffsetNotAvailableError` after the timeout, and `NotLeaderError` when the leadership ends.
        """
        if self.knows_high_watermark:
            return
        if self._known is None:
            self._known = self._when_committed(self.epoch_start)
        assert self._known is not None, "the high watermark is below the start of the epoch"
        done, _ = await asyncio.wait([self._known], timeout=timeout_s)
        if done:
            self._known.result()
        else:
            self.require_high_watermark()

    def end_of_reading(self, *, is_committed: bool) -> int:
        """How far a consumer may read."""
        return self.log.last_stable_offset if is_committed else self.log.high_watermark

    def read_now(self, offset: int, max_bytes: int, end_offset: int) -> LogRead | None:
        """Read what is in memory; None where the read must wait for the disk."""
        log = self.log
        last = log.high_watermark if self.leader is None else log.end_offset
        if not log.log_start_offset <= offset <= last:
            raise OffsetOutOfRangeError(
                f"{self.at} holds offsets {log.log_start_offset} to {last} (exclusive), not {offset}"
            )
        if offset >= end_offset:
            return LogRead((), offset)
        read = log.read_now(offset, max_bytes, end_offset)
        return read if isinstance(read, LogRead) else None

    async def read(self, offset: int, max_bytes: int, end_offset: int) -> LogRead:
        """Read, waiting for the disk if need be."""
        return await self._runtime.read(self.log, offset, max_bytes, end_offset)

    def has_aborted_in_memory(self, offset: int, end_offset: int) -> bool:
        """Whether the aborted transactions of a read are in memory."""
        return self.log.unready_for_aborted(offset, end_offset) is None

    async def load_aborted(self, offset: int, end_offset: int) -> None:
        await self._runtime.load_aborted(self.log, offset, end_offset)

    def wait_for_more(self, wake: Wake, *, is_follower: bool = False) -> None:
        """Call `wake` once, when there is more to read."""
        (self._waiting_followers if is_follower else self._waiting)[wake] = None

    def stop_waiting(self, wake: Wake) -> None:
        self._waiting.pop(wake, None)
        self._waiting_followers.pop(wake, None)

    def retire(self, why: ErrorCode = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) -> None:
        """Wake everything that waits: this leadership is over."""
        self.is_retired = True
        self.why_retired = why
        waiting = [*self._waiting, *self._waiting_followers]
        self._waiting, self._waiting_followers = {}, {}
        for wake in waiting:
            wake()
        acknowledged, self._acknowledged = self._acknowledged, deque()
        for _, committed in acknowledged:
            committed.settle_with_fault(self._not_leader())
            committed.exception()  # Producers with acks=1 have their answer, and do not look.
        starting, self._starting = self._starting, []
        for _, started in starting:
            started.settle_with_fault(self._not_leader())
            started.exception()
