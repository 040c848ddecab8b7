"""Fetch from follower (KIP-392): reads from follower replicas.

A leader sends consumers to a follower in their rack (`replica_selector`). The follower serves its own log up to the
high watermark that it knows.

Rule 1: a follower serves nothing beyond its own high watermark (C22): everything below is committed.
Rule 2: a follower that is not in sync serves nothing; its consumers go back to the leader. A process that has restarted
        is not in sync before the set names it again: its disk may have lost what consumers have read.
Rule 3: a reader is of one replica in one leader epoch. When that is over, it wakes the fetches that wait.
"""

from __future__ import annotations

from qanat.broker.replicas.local_replicas import FollowerReplica, LocalReplicas
from qanat.broker.replicas.partition import Partition, Wake
from qanat.cluster.image import MetadataImage
from qanat.log.log_reads import LogRead
from qanat.log.runtime.log_runtime import LogRuntime
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import OffsetOutOfRangeError
from qanat.model.ids import TopicPartition


class FollowerReader:
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

    def __init__(self, replica: FollowerReplica, runtime: LogRuntime) -> None:
        self.at = replica.at
        self.log = replica.log
        self.leader_epoch = replica.leader_epoch
        self.written_bytes = 0
        """Bytes appended since this began: waiting fetches count by it."""
        self.readable_bytes = 0
        """`written_bytes` when everything appended could last be read."""
        self.is_retired = False
        self.why_retired = ErrorCode.NONE
        self._runtime = runtime
        self._waiting: dict[Wake, None] = {}

    def __repr__(self) -> str:
        return f"<FollowerReader {self.at} epoch {self.leader_epoch} {self.log!r}>"

    def note_appended(self, size: int) -> None:
        """The leader has sent more: records, or a higher high watermark."""
        self.written_bytes += size
        if self.log.high_watermark == self.log.end_offset:
            self.readable_bytes = self.written_bytes
        self._wake()

    def read_now(self, offset: int, max_bytes: int, end_offset: int) -> LogRead | None:
        """Read what is in memory; None where the read must wait for the disk."""
        log = self.log
        if not log.log_start_offset <= offset <= log.end_offset:
            raise OffsetOutOfRangeError(
                f"this replica of {self.at} holds offsets {log.log_start_offset} to {log.end_offset} (exclusive), "
                f"not {offset}: ask the leader"
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
        self._waiting[wake] = None

    def stop_waiting(self, wake: Wake) -> None:
        self._waiting.pop(wake, None)

    def retire(self) -> None:
        """Wake all waiting fetches: this replica is truncated, led by us, led by another, or removed."""
        self.is_retired = True
        self.why_retired = ErrorCode.NOT_LEADER_OR_FOLLOWER
        self._wake()

    def _wake(self) -> None:
        if self._waiting:
            waiting, self._waiting = self._waiting, {}
            for wake in waiting:
                wake()


Readable = Partition | FollowerReader


class FollowerFetching:
    """What this broker serves as a follower."""

    def __init__(self, image: MetadataImage, local_replicas: LocalReplicas, runtime: LogRuntime) -> None:
        self._image = image
        self._local_replicas = local_replicas
        self._runtime = runtime
        self._readers: dict[TopicPartition, FollowerReader] = {}

    def reader_of(self, at: TopicPartition) -> FollowerReader | None:
        """Our replica of a partition for consumers to read; None where we have none that may be served."""
        fetchers, image = self._local_replicas.fetchers, self._image
        topic = image.topics.get(at.topic)
        if fetchers is None or topic is None or not 0 <= at.partition < len(topic.partitions):
            return None
        if not self._local_replicas.is_in_sync(image.state(topic, at.partition)) or at in fetchers.truncating:
            return None
        reader = self._readers.get(at)
        if reader is None and (replica := fetchers.replicas.get(at)) is not None:
            reader = self._readers[at] = FollowerReader(replica, self._runtime)
        return reader

    def note_appended(self, at: TopicPartition, size: int) -> None:
        """The leader has sent more of a partition that we follow."""
        if self._readers and (reader := self._readers.get(at)) is not None:
            reader.note_appended(size)

    def retire(self, at: TopicPartition) -> None:
        """A replica is no longer followed as it was, or is about to be truncated."""
        if (reader := self._readers.pop(at, None)) is not None:
            reader.retire()
