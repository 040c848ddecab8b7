"""Reads from followers (KIP-392): to whom a leader sends a consumer, and copies that consumers read.

A consumer names its rack. Where `replica.selector.class` says so and the leader stands in another rack, the leader
answers without records and names the in-sync follower in the consumer's rack that has most; from then on
the consumer asks that one. Whoever is asked reads its own copy up to the high watermark that its leader told it.

Rule 1: a copy shows nothing beyond its own high watermark (C22): whatever lies below is committed.
Rule 2: a follower that is not in sync shows nothing; its consumers are sent back to look for the leader. A process that
        is back is not in sync before the set names it anew: its disk may have lost what consumers have read.
Rule 3: a reader is of one copy in one leader epoch. When that is over, whoever waits is told so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.broker.replicas.local_replicas import Copy
from qanat.broker.replicas.partition import Partition, Wake
from qanat.broker.settings.broker_settings import LEADER_SELECTORS
from qanat.log.log_reads import LogRead
from qanat.log.runtime.log_runtime import LogRuntime
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import OffsetOutOfRangeError
from qanat.model.ids import TopicPartition

if TYPE_CHECKING:
    from qanat.broker.broker import Broker

NOBODY = -1


class CopyReader:
    """The reading side of a partition that another broker leads."""

    __slots__ = (
        "_runtime",
        "_waiting",
        "at",
        "is_retired",
        "leader_epoch",
        "log",
        "readable_bytes",
        "why_retired",
        "written_bytes",
    )

    def __init__(self, copy: Copy, runtime: LogRuntime) -> None:
        self.at = copy.at
        self.log = copy.log
        self.leader_epoch = copy.leader_epoch
        self.written_bytes = 0
        """Bytes copied since this began: waiting fetches count by it."""
        self.readable_bytes = 0
        """`written_bytes` when everything copied could last be read."""
        self.is_retired = False
        self.why_retired = ErrorCode.NONE
        self._runtime = runtime
        self._waiting: dict[Wake, None] = {}

    def __repr__(self) -> str:
        return f"<CopyReader {self.at} epoch {self.leader_epoch} {self.log!r}>"

    def copied(self, size: int) -> None:
        """More has come from the leader: records, or the word that they are committed."""
        self.written_bytes += size
        if self.log.high_watermark == self.log.end_offset:
            self.readable_bytes = self.written_bytes
        self._wake()

    def read_now(self, offset: int, max_bytes: int, end_offset: int) -> LogRead | None:
        """Read what is in memory; None where the disk would have to be waited for."""
        log = self.log
        if not log.log_start_offset <= offset <= log.end_offset:
            raise OffsetOutOfRangeError(
                f"this copy of {self.at} holds offsets {log.log_start_offset} to {log.end_offset} (exclusive), "
                f"not {offset}: ask the leader"
            )
        if offset >= end_offset:
            return LogRead((), offset)
        read = log.read_now(offset, max_bytes, end_offset)
        return read if isinstance(read, LogRead) else None

    async def read(self, offset: int, max_bytes: int, end_offset: int) -> LogRead:
        """Read, waiting for the disk if need be."""
        return await self._runtime.read(self.log, offset, max_bytes, end_offset)

    def has_aborted_at_hand(self, offset: int, end_offset: int) -> bool:
        """Whether the aborted transactions of a read can be named without waiting for the disk."""
        return self.log.unready_for_aborted(offset, end_offset) is None

    async def load_aborted(self, offset: int, end_offset: int) -> None:
        await self._runtime.load_aborted(self.log, offset, end_offset)

    def wait_for_more(self, wake: Wake, *, is_follower: bool = False) -> None:
        """Call `wake` once, when there is more to read."""
        self._waiting[wake] = None

    def stop_waiting(self, wake: Wake) -> None:
        self._waiting.pop(wake, None)

    def retire(self) -> None:
        """Wake everybody: this copy is cut, led by us, led by another, or gone."""
        self.is_retired = True
        self.why_retired = ErrorCode.NOT_LEADER_OR_FOLLOWER
        self._wake()

    def _wake(self) -> None:
        if self._waiting:
            waiting, self._waiting = self._waiting, {}
            for wake in waiting:
                wake()


Readable = Partition | CopyReader


class FollowerFetching:
    """Both sides of it: whom a leader names, and what a follower shows."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._readers: dict[TopicPartition, CopyReader] = {}

    # As the leader

    @property
    def is_on(self) -> bool:
        """Whether consumers are sent to followers at all."""
        return self._broker.settings.replica_selector_class not in LEADER_SELECTORS

    def preferred(self, partition: Partition, rack: str, offset: int) -> int:
        """The follower that a consumer in this rack should ask instead of us, or -1."""
        leader = partition.leader
        if leader is None or not rack or rack == self._broker.settings.broker_rack:
            return NOBODY
        brokers = self._broker.metadata.image.brokers
        best, most = NOBODY, -1
        for node_id in leader.in_sync:
            other = brokers.get(node_id)
            if other is None or other.rack != rack or other.is_stopping:
                continue
            start_offset, end_offset = leader.held_by(node_id)
            if start_offset <= offset <= end_offset and end_offset > most:
                best, most = node_id, end_offset
        return best

    # As a follower

    def copy_of(self, at: TopicPartition) -> CopyReader | None:
        """Our copy of a partition for consumers to read; None where we have none that may be shown."""
        followers, image = self._broker.local_replicas.followers, self._broker.metadata.image
        topic = image.topics.get(at.topic)
        if followers is None or topic is None or not 0 <= at.partition < len(topic.partitions):
            return None
        if not self._broker.local_replicas.is_in_sync(image.state(topic, at.partition)) or at in followers.busy:
            return None
        reader = self._readers.get(at)
        if reader is None and (copy := followers.copies.get(at)) is not None:
            reader = self._readers[at] = CopyReader(copy, self._broker.runtime)
        return reader

    def copied(self, at: TopicPartition, size: int) -> None:
        """The leader has told us more of a partition that we follow."""
        if self._readers and (reader := self._readers.get(at)) is not None:
            reader.copied(size)

    def left(self, at: TopicPartition) -> None:
        """A copy is followed no more as it was, or is about to be cut."""
        if (reader := self._readers.pop(at, None)) is not None:
            reader.retire()
