"""The catalogue: every partition and segment of a data directory as a clean shutdown left it.

With it a clean start opens thousands of partitions without reading their
folders. It is a hint: it counts only together with the clean-shutdown
marker that names the same generation, and a partition whose files do not have
the recorded sizes is recovered as after a crash.

The adapter is `adapters.sqlite_catalogue`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

import msgspec

from qanat.log.atomic_files import read_whole, write_volatile
from qanat.log.files import Files
from qanat.log.leader_epochs import LeaderEpochs
from qanat.log.partition_log import PartitionLog
from qanat.log.producer_snapshots import decode_snapshot, encode_snapshot
from qanat.log.producers import Producers
from qanat.log.segments import file_names
from qanat.log.segments.batch_scan import Damage
from qanat.log.segments.index_tables import GrowingTables
from qanat.log.segments.segment import Segment
from qanat.log.segments.sidecar import Sidecar
from qanat.log.settings import LogSettings
from qanat.model.ids import TopicPartition


class SegmentRow(msgspec.Struct, frozen=True):
    """A segment; the last one of a partition is open, the others are sealed."""

    base_offset: int
    sidecar: Sidecar
    damage: tuple[Damage, ...] = ()


class PartitionRow(msgspec.Struct, frozen=True):
    """A partition with its segments, oldest first."""

    topic_partition: TopicPartition
    topic_id: str
    log_start_offset: int
    high_watermark: int
    cleaned_offset: int
    leader_epochs: str
    producer_count: int
    active_since_ms: int | None
    segments: tuple[SegmentRow, ...]


class Catalogue(Protocol):
    """Where rows are stored."""

    def load(self, generation: str) -> Iterator[PartitionRow]:
        """The rows of this generation; none where another one was saved, or the catalogue is unusable."""
        ...

    def save(self, generation: str, rows: Iterable[PartitionRow]) -> None:
        """Replace the whole content, durably and in one step."""
        ...


def close_log(log: PartitionLog, topic_id: str) -> PartitionRow:
    """Write what a clean start needs of a flushed log; returns its row. The log is closed afterwards."""
    assert log.flushed_offset == log.end_offset, "flush before closing"
    active = log.active
    sidecar = active.describe()
    assert isinstance(active.tables, GrowingTables), "the last segment is open"
    active.tables.write(log.files, log.directory)
    if len(log.producers):
        path = file_names.segment_file(log.directory, log.end_offset, file_names.SNAPSHOT)
        write_volatile(log.files, path, encode_snapshot(log.producers))
    rows = [SegmentRow(segment.base_offset, segment.sidecar or sidecar, segment.damage) for segment in log.segments]
    for segment in log.segments:
        segment.close()
    return PartitionRow(
        log.topic_partition, topic_id, log.log_start_offset, log.high_watermark, log.cleaned_offset,
        log.epochs.encode().decode(), len(log.producers), active.first_append_ms, tuple(rows),
    )  # fmt: skip


def reopen_log(files: Files, directory: str, row: PartitionRow, settings: LogSettings) -> PartitionLog | None:
    """The log as its row describes it; None where the files contradict the row."""
    epochs = LeaderEpochs.decode(row.leader_epochs.encode())
    producers = _producers(files, directory, row)
    segments = [_sealed(files, directory, entry) for entry in row.segments[:-1]]
    active = _open_segment(files, directory, row, settings)
    whole = [segment for segment in (*segments, active) if segment is not None]
    if epochs is None or producers is None or len(whole) < len(row.segments):
        for segment in whole:
            segment.close()
        return None
    log = PartitionLog(files, directory, row.topic_partition, settings, whole, epochs, producers, row.log_start_offset)
    log.high_watermark = row.high_watermark
    log.cleaned_offset = row.cleaned_offset
    log.has_new_names = False
    return log


def _producers(files: Files, directory: str, row: PartitionRow) -> Producers | None:
    if not row.producer_count:
        return Producers()
    end_offset = row.segments[-1].sidecar.next_offset
    content = read_whole(files, file_names.segment_file(directory, end_offset, file_names.SNAPSHOT))
    producers = decode_snapshot(content or b"")
    return producers if producers is not None and len(producers) == row.producer_count else None


def _sealed(files: Files, directory: str, row: SegmentRow) -> Segment | None:
    if not files.exists(file_names.segment_file(directory, row.base_offset, file_names.LOG)):
        return None
    segment = Segment.sealed(files, directory, row.base_offset, row.sidecar)
    segment.damage = row.damage
    held = segment.file.size()
    if held != row.sidecar.size and not _is_known_short(row, held):
        segment.close()
        return None
    segment.size = held
    return segment


def _is_known_short(row: SegmentRow, held: int) -> bool:
    """Whether the file's end was missing before, and as much of it."""
    return bool(row.damage) and row.damage[-1].start == row.damage[-1].end == held < row.sidecar.size


def _open_segment(files: Files, directory: str, partition: PartitionRow, settings: LogSettings) -> Segment | None:
    row = partition.segments[-1]
    path = file_names.segment_file(directory, row.base_offset, file_names.LOG)
    if not files.exists(path):
        return None
    segment = Segment(files, directory, row.base_offset, files.open(path), settings.index_interval_bytes)
    contents = [
        read_whole(files, segment.path(suffix)) or b""
        for suffix in (file_names.OFFSET_INDEX, file_names.TIME_INDEX, file_names.ABORTED_INDEX)
    ]
    tables = GrowingTables.restored(row.base_offset, settings.index_interval_bytes, row.sidecar.size, *contents)
    if segment.file.size() != row.sidecar.size or tables is None or tables.checksums() != row.sidecar.checksums:
        segment.close()
        return None
    segment.tables = tables
    headers = row.sidecar.headers
    segment.is_digested = not isinstance(headers, msgspec.UnsetType)
    if not isinstance(headers, msgspec.UnsetType):
        segment.digest, segment.is_dense = headers.digest, headers.is_dense
    segment.size = row.sidecar.size
    segment.next_offset = row.sidecar.next_offset
    segment.max_timestamp = row.sidecar.max_timestamp
    segment.max_timestamp_offset = row.sidecar.max_timestamp_offset
    segment.first_append_ms = partition.active_since_ms
    segment.damage = row.damage
    return segment
