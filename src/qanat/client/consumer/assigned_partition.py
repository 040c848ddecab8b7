"""One assigned partition: what is fetched ahead of it, what was handed out, what is finished.

The I/O loop appends chunks at one end, the user's thread takes them at the other.

Rule 1: `token` changes when fetched chunks no longer count (a seek, a revocation); whoever holds one compares it.
Rule 2: `finished` never exceeds `position`: the first is what may be committed, the second what was handed out.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from qanat.client.records import Record
from qanat.connection.consuming.partition_cursor import PartitionCursor, Reset
from qanat.connection.fetching import INFLATED_BYTES_MAX
from qanat.model.errors import CorruptBatchError
from qanat.model.ids import TopicPartition
from qanat.wire.batch_header import BatchHeader, Buffer
from qanat.wire.kafka.layouts import ZERO_UUID
from qanat.wire.record_reader import build_records
from qanat.wire.records import open_batch


class Chunk:
    """Some neighbouring batches of a partition; decoded when they are needed."""

    __slots__ = ("batches", "first_offset", "index", "next_offset", "payloads", "records", "row_count", "size", "token")

    def __init__(self, token: int, first_offset: int) -> None:
        self.token = token
        self.first_offset = first_offset
        self.next_offset = first_offset
        self.batches: list[tuple[memoryview, BatchHeader]] = []
        self.payloads: list[Buffer] | None = None
        """The batches' records uncompressed, where that was done ahead."""
        self.size = 0
        self.row_count = 0
        """At most so many records."""
        self.records: list[Any] | None = None
        self.index = 0

    @staticmethod
    def of(records: list[Any]) -> Chunk:
        """A chunk of records that are decoded already."""
        chunk = Chunk(-1, records[0].offset)
        chunk.records, chunk.row_count = records, len(records)
        return chunk

    def add(self, batch: memoryview, header: BatchHeader) -> None:
        self.batches.append((batch, header))
        self.size += len(batch)
        self.row_count += header.record_count

    def open_ahead(self) -> None:
        """Uncompress; in a worker where it is much."""
        self.payloads = [open_batch(batch, INFLATED_BYTES_MAX)[1] for batch, _ in self.batches]
        self.size = sum(map(len, self.payloads))

    def decode(self, at: TopicPartition) -> list[Any]:
        """The records; raises `CorruptBatchError` which names the partition."""
        records: list[Any] = []
        try:
            payloads = self.payloads or [open_batch(batch, INFLATED_BYTES_MAX)[1] for batch, _ in self.batches]
            for (_, header), payload in zip(self.batches, payloads, strict=True):
                is_fixed = header.is_log_append_time
                records += build_records(
                    payload,
                    header.record_count,
                    header.last_offset_delta,
                    self.first_offset - header.base_offset,
                    header.base_offset,
                    header.max_timestamp if is_fixed else header.base_timestamp,
                    is_fixed,
                    Record,
                    at.topic,
                    at.partition,
                    0,
                    header.leader_epoch,
                )
        except CorruptBatchError as fault:
            raise CorruptBatchError(f"{at} at offset {self.first_offset}: {fault}; seek past it to continue") from None
        self.batches, self.payloads = [], None
        return records


class AssignedPartition:
    """A partition of this consumer, until it is revoked."""

    __slots__ = (
        "at",
        "begun_at",
        "buffered_bytes",
        "chunks",
        "committed",
        "cursor",
        "end_offset",
        "finished",
        "finished_epoch",
        "is_held",
        "is_leaving",
        "is_paused",
        "log_start",
        "position",
        "position_epoch",
        "replica",
        "token",
        "topic_id",
    )

    def __init__(self, at: TopicPartition, policy: Reset) -> None:
        self.at = at
        self.cursor = PartitionCursor(policy)
        self.topic_id = ZERO_UUID
        self.token = 0
        self.chunks: deque[Chunk] = deque()
        self.buffered_bytes = 0
        self.is_paused = False
        self.is_leaving = False
        self.is_held = False
        """Whether it waits for the hook of its assignment."""
        self.position = -1
        """The next offset to hand out; -1 until it is known."""
        self.position_epoch = -1
        self.begun_at = -1
        """Where this assignment began; -1 until it is known."""
        self.finished = -1
        """All records before it are finished; -1 until the position is known."""
        self.finished_epoch = -1
        self.committed = -1
        self.end_offset = -1
        """Where the partition ends for this reader, as the latest answer said."""
        self.log_start = -1
        self.replica = -1
        """A follower that the leader told us to read from (KIP-392); -1 for the leader."""

    @property
    def is_live(self) -> bool:
        """Whether its records may be handed out."""
        return not (self.is_paused or self.is_leaving or self.is_held)

    @property
    def lag(self) -> int:
        """Records between the position and the end; -1 where either is not known."""
        if self.position < 0 or self.end_offset < 0:
            return -1
        return max(0, self.end_offset - self.position)
