"""An executor's part of a copy: rows encoded into batches and staged at the brokers, with their old offsets."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from qanat.model.ids import TopicPartition
from qanat.spark.host_identity import host_identity
from qanat.spark.options.options import Access
from qanat.spark.sink.batch_sender import Sender
from qanat.spark.sink.local_brokers import LocalBrokers
from qanat.spark.sink.local_ingest import LocalIngestFiles
from qanat.spark.sink.outgoing_columns import EncodedBatch, Target
from qanat.spark.sink.remote_ingest import RemoteIngest
from qanat.spark.sink.row_batches import Encoder
from qanat.spark.sink.row_staging import RowStaging
from qanat.spark.sink.staging import Staged, StageWriter, Staging
from qanat.spark.worker_memory import retain_memory
from qanat.wire.compression import Codec

COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
RESULT = "copied binary"

Stretches = list[tuple[int, int]]
"""Old offsets as `(first, rows)`."""


@dataclass(frozen=True, slots=True)
class CopyTask:
    """The parameters of a copy task."""

    names: Mapping[str, str]
    """The new name of each topic."""
    counts: Mapping[str, int]
    """The number of partitions of each new topic."""
    positions: Mapping[TopicPartition, int]
    """By old names: rows before these offsets were copied earlier."""
    access: Access
    """The target."""
    staging: str
    folder: str
    driver: str
    """The identity of the driver's machine: it can send files on it that a broker does not ingest."""
    codec: str = "none"
    batch_bytes: int = 1_000_000


@dataclass(frozen=True, slots=True)
class Copied:
    """The result of a task: staged batches, and the old offsets of their rows by the new partitions, in order."""

    staged: Staged
    old: Mapping[TopicPartition, Stretches]


def copy_rows(batches: Iterable[pa.RecordBatch], task: CopyTask) -> Iterator[pa.RecordBatch]:
    """The function that Spark runs: rows in `COLUMNS`, in order within a partition, into one row of bytes."""
    old: dict[TopicPartition, Stretches] = {}
    retain_memory()
    with Sender(task.access) as sender:
        staged = sender.run(_staged(_encoded(batches, task, old), task, sender))
    packed = pickle.dumps(Copied(staged, old))
    yield pa.RecordBatch.from_pydict({"copied": pa.array([packed], pa.binary())})


def unpacked(packed: bytes) -> Copied:
    """The result that a task reported to its driver."""
    found: Copied = pickle.loads(packed)
    return found


async def _staged(batches: Iterable[EncodedBatch], task: CopyTask, sender: Sender) -> Staged:
    """Stage batches beside brokers of this machine, else at those that take uploads, else for the driver."""
    is_local = host_identity() == task.driver
    local_files = LocalIngestFiles(LocalBrokers(sender.cluster), task.folder, 0) if is_local else None
    with StageWriter(Staging(task.staging), task.folder) as writer:
        staging = RowStaging(writer, local_files, RemoteIngest(sender.cluster, task.folder))
        try:
            for batch in batches:
                await staging.add(batch)
            return await staging.close()
        except BaseException:
            await staging.drop()
            raise


def _encoded(
    batches: Iterable[pa.RecordBatch], task: CopyTask, old: dict[TopicPartition, Stretches]
) -> Iterator[EncodedBatch]:
    target = Target(None, Codec[task.codec.upper()], task.batch_bytes, has_headers=True)
    encoder = Encoder(target, dict(task.counts))
    for batch in batches:
        for at, rows in by_partition(batch):
            wanted = task.positions.get(at, 0)
            if rows.column("offset")[0].as_py() < wanted:
                rows = rows.filter(pc.greater_equal(rows.column("offset"), wanted))
            if not rows.num_rows:
                continue
            new = TopicPartition(task.names[at.topic], at.partition)
            old.setdefault(new, []).extend(stretches(rows.column("offset").to_numpy()))
            yield from encoder.encode(_renamed(rows, new.topic))


def _renamed(rows: pa.RecordBatch, topic: str) -> pa.RecordBatch:
    named = rows.set_column(rows.schema.get_field_index("topic"), "topic", pa.repeat(topic, rows.num_rows))
    return named.drop_columns(["offset"])


def by_partition(batch: pa.RecordBatch) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
    """The rows of each partition, in order."""
    for topic in pc.unique(batch.column("topic")).to_pylist():
        of_topic = _only(batch, "topic", topic)
        for number in pc.unique(of_topic.column("partition")).to_pylist():
            yield TopicPartition(topic, number), _only(of_topic, "partition", number)


def stretches(offsets: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Stretches:
    """Offsets as stretches without gaps.

    >>> stretches(np.array([5, 6, 9]))
    [(5, 2), (9, 1)]
    """
    edges = np.flatnonzero(np.diff(offsets) != 1) + 1
    starts = np.concatenate(([0], edges))
    rows = np.diff(np.concatenate((starts, [len(offsets)])))
    return [(int(first), int(count)) for first, count in zip(offsets[starts], rows, strict=True)]


def _only(batch: pa.RecordBatch, column: str, value: object) -> pa.RecordBatch:
    fits = pc.equal(batch.column(column), value)
    return batch if pc.all(fits).as_py() else batch.filter(fits)
