"""A topic filled with a backlog, and what must be found in copies of it."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa  # type: ignore[import-untyped]
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from qanat.spark.options.options import BATCH_BYTES, Access
from qanat.spark.sink.batch_sender import Sender
from qanat.spark.sink.local_ingest import LocalIngestFiles
from qanat.spark.sink.outgoing_columns import Target
from qanat.spark.sink.row_batches import Encoder
from qanat.wire.compression import Codec
from tools.backlog.measurements import PARTITIONS, Backlog

_TIMEOUT_S = 60.0


@dataclass(slots=True)
class Digest:
    """The values of a partition in order: how many, and a checksum of all."""

    rows: int = 0
    checksum: int = 0

    def add(self, values: pa.Array) -> None:
        """Add values without nulls."""
        _, offsets, data = values.buffers()
        ends = memoryview(offsets).cast("i")[values.offset : values.offset + len(values) + 1]
        self.rows += len(values)
        self.checksum = zlib.crc32(memoryview(data)[ends[0] : ends[-1]], self.checksum)

    def add_one(self, value: bytes) -> None:
        self.rows += 1
        self.checksum = zlib.crc32(value, self.checksum)


@dataclass(slots=True)
class Filled:
    """What was sent."""

    partitions: list[Digest] = field(default_factory=lambda: [Digest() for _ in range(PARTITIONS)])
    broken: int = 0
    late: int = 0
    duplicates: int = 0

    @property
    def records(self) -> int:
        return sum(one.rows for one in self.partitions)


def fill(address: str, topic: str, backlog: Backlog, show: Callable[[str], None]) -> Filled:
    """Create the topic and send the backlog."""
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(_TIMEOUT_S)
    filled = Filled()
    encoder = Encoder(Target(topic, Codec.NONE, BATCH_BYTES // 2, has_headers=False), {topic: PARTITIONS})
    with Sender(Access(address)) as sender:
        sender.init_idempotent()
        sender.send_rows(_noted(backlog, filled, show), encoder, LocalIngestFiles(None, ""))
    return filled


def _noted(backlog: Backlog, filled: Filled, show: Callable[[str], None]) -> Iterator[pa.RecordBatch]:
    for number, chunk in enumerate(backlog.chunks(), 1):
        filled.broken += chunk.broken
        filled.late += chunk.late
        filled.duplicates += chunk.duplicates
        for partition, rows in enumerate(chunk.records()):
            filled.partitions[partition].add(rows.column("value"))
            yield rows
        if number % 100 == 0:
            show(f"{filled.records:,} records are sent")
    last = backlog.closing()
    for partition, value in enumerate(last.column("value").to_pylist()):
        filled.partitions[partition].add_one(value)
    yield last
