"""Batches and logs for the tests of `log/`: short to write, and the same everywhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hypothesis import HealthCheck, settings

from qanat.adapters.memory_files import MemoryFiles
from qanat.log.admission import admit
from qanat.log.appended import Appended
from qanat.log.atomic_files import read_whole, write_volatile
from qanat.log.background_jobs import run_now
from qanat.log.compaction.compaction import begin_compaction
from qanat.log.files import Buffer, Files
from qanat.log.flush_state import begin_flush
from qanat.log.partition_log import PartitionLog
from qanat.log.recovery.log_recovery import Checkpoint, open_log
from qanat.log.settings import DirectorySettings, LogSettings
from qanat.log.truncation import TruncationPlanJob, begin_truncation
from qanat.model.ids import TopicPartition
from qanat.wire.batch_header import BatchHeader, batch_size_at, read_header
from qanat.wire.compression import Codec
from qanat.wire.control import Marker, encode_marker
from qanat.wire.records import Record, decode_records, encode_batch

NOW = 1_700_000_000_000
LIMIT = 16 * 1024 * 1024
PARTITION = TopicPartition("t", 0)
FOLDER = "/data/t-0"

Pair = tuple[bytes | None, bytes | None]

examples = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""Enough to find what these tests are for, without a limit for one example: the machine may be busy."""


@dataclass(frozen=True, slots=True)
class Writer:
    """A producer's identity and where it is in its sequence."""

    producer_id: int
    epoch: int = 0
    sequence: int = 0


def records(pairs: Sequence[Pair], timestamps: Sequence[int], base_offset: int = 0) -> list[Record]:
    return [
        Record(base_offset + delta, timestamp, key, value)
        for delta, ((key, value), timestamp) in enumerate(zip(pairs, timestamps, strict=True))
    ]


def batch(
    pairs: int | Sequence[Pair] = 1,
    *,
    at: int = 0,
    timestamps: int | Sequence[int] = NOW,
    codec: Codec = Codec.NONE,
    leader_epoch: int = -1,
    writer: Writer | None = None,
    is_transactional: bool = False,
) -> bytes:
    """One batch: of so many numbered records, or of these keys and values."""
    if isinstance(pairs, int):
        pairs = [(b"key-%d" % number, b"value-%d" % number) for number in range(pairs)]
    if isinstance(timestamps, int):
        timestamps = [timestamps] * len(pairs)
    encoded = encode_batch(
        records(pairs, timestamps, at),
        codec=codec,
        leader_epoch=leader_epoch,
        producer_id=writer.producer_id if writer else -1,
        producer_epoch=writer.epoch if writer else -1,
        base_sequence=writer.sequence if writer else -1,
        is_transactional=is_transactional,
    )
    return bytes(encoded)


def marker(
    producer_id: int, epoch: int = 0, *, at: int = 0, coordinator_epoch: int = 0, is_commit: bool, leader_epoch: int = 0
) -> bytes:
    """A marker as it comes from a leader."""
    return bytes(
        encode_marker(
            Marker(is_commit, coordinator_epoch),
            producer_id=producer_id,
            producer_epoch=epoch,
            timestamp_ms=NOW,
            base_offset=at,
            leader_epoch=leader_epoch,
        )
    )


def new_log(files: Files | None = None, folder: str = FOLDER, /, **settings: object) -> PartitionLog:
    """An empty log, in memory by default; settings by field name, with small index steps."""
    files = MemoryFiles() if files is None else files
    files.make_directory(folder)
    return open_log(files, folder, PARTITION, log_settings(**settings), Checkpoint())


def log_settings(**settings: object) -> LogSettings:
    given = {"index_interval_bytes": 100, "retention_ms": -1, **settings}
    return LogSettings.parse({name.replace("_", "."): value for name, value in given.items()})


def reopened(log: PartitionLog, files: Files | None = None, checkpoint: Checkpoint | None = None) -> PartitionLog:
    """What another process would find; with the checkpoint that this one would have written."""
    return open_log(
        files or log.files, log.directory, log.topic_partition, log.settings, checkpoint or checkpoint_of(log)
    )


def checkpoint_of(log: PartitionLog) -> Checkpoint:
    bounds = (log.log_start_offset, log.flushed_offset, log.high_watermark, log.cleaned_offset)
    return Checkpoint(*bounds, log.header_point())


def append(log: PartitionLog, content: Buffer, leader_epoch: int = 0, now_ms: int = NOW) -> Appended:
    """A client's batch through admission into the log."""
    return log.append(admit(content, log.settings, now_ms, LIMIT), leader_epoch, now_ms)


def fill(log: PartitionLog, count: int, size: int = 1, leader_epoch: int = 0) -> None:
    """`count` batches of `size` records each."""
    for _ in range(count):
        append(log, batch(size), leader_epoch)


def end_transaction(log: PartitionLog, producer_id: int, *, is_commit: bool, epoch: int = 0, now_ms: int = NOW) -> int:
    """Append the marker, as the leader in office; return its offset."""
    leader_epoch = max(log.epochs.latest, 0)
    return log.append_marker(producer_id, epoch, 0, leader_epoch, now_ms, is_commit=is_commit).base_offset


def flush(log: PartitionLog) -> None:
    run_now(begin_flush(log))


def replicate(log: PartitionLog) -> None:
    """Everything is on disk and on every replica."""
    flush(log)
    log.advance_high_watermark(log.end_offset)


def truncate(log: PartitionLog, end_offset: int) -> None:
    flush(log)
    look = TruncationPlanJob(log, end_offset)
    run_now(look)
    run_now(begin_truncation(log, end_offset, look.plan))


def compact(log: PartitionLog, now_ms: int = NOW, dedupe_bytes: int = 1024 * 1024) -> None:
    """Close what is open, and compact everything before it."""
    if log.active.size:
        log.roll()
    replicate(log)
    limits = DirectorySettings(log_cleaner_dedupe_buffer_size=dedupe_bytes)
    run_now(begin_compaction(log, limits, now_ms))


def batches_in(content: Buffer) -> Iterator[tuple[BatchHeader, bytes]]:
    """The batches of whole slices."""
    view = memoryview(content)
    position = 0
    while position < len(view):
        size = batch_size_at(view, position)
        yield read_header(view, position), bytes(view[position : position + size])
        position += size


def stored(log: PartitionLog, max_bytes: int = 300) -> list[tuple[BatchHeader, bytes]]:
    """Every batch of the log, read step by step as a consumer does it. Fails where a step does not move on."""
    found: list[tuple[BatchHeader, bytes]] = []
    offset = log.log_start_offset
    while offset < log.end_offset:
        read = log.read(offset, max_bytes)
        assert read.next_offset > offset, f"reading stands still at {offset}"
        for view in read.views():
            found += batches_in(view)
        offset = read.next_offset
    return found


def contents(log: PartitionLog) -> list[Record]:
    """Every record that a consumer gets to see, markers left out."""
    return [
        record
        for header, content in stored(log)
        if not header.is_control
        for record in decode_records(content, LIMIT)
        if record.offset >= log.log_start_offset
    ]


def pairs_of(log: PartitionLog) -> list[tuple[int, bytes | None, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in contents(log)]


def image(files: Files, folder: str = FOLDER) -> dict[str, bytes]:
    """Every file of a folder."""
    return {name: read_whole(files, f"{folder}/{name}") or b"" for name in files.list(folder)}


def disk_with(content: dict[str, bytes], folder: str = FOLDER) -> MemoryFiles:
    """A file system with just these files."""
    files = MemoryFiles()
    files.make_directory(folder)
    for name, data in content.items():
        write_volatile(files, f"{folder}/{name}", data)
    return files


def overwrite(log: PartitionLog, segment: int, position: int, content: bytes) -> None:
    """Rot: other bytes in the middle of a segment's file, behind the log's back."""
    target = log.segments[segment]
    changed = bytearray(target.file.read(0, target.file.size()))
    changed[position : position + len(content)] = content
    file = log.files.open(target.file.path)
    file.write((bytes(changed),), 0)
