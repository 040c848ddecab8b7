"""A log written by our code on real files, with a list of what was written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from qanat.adapters.os_files import OsFiles
from qanat.log.admission import admit
from qanat.log.background_jobs import run_now
from qanat.log.flush_state import begin_flush
from qanat.log.partition_log import PartitionLog
from qanat.log.recovery.log_recovery import Checkpoint, open_log
from qanat.log.segments.aborted_index import AbortedTransaction
from qanat.log.settings import LogSettings
from qanat.model.ids import LeaderEpoch, TopicPartition
from qanat.wire.compression import Codec
from qanat.wire.records import Record, encode_batch

LIMIT = 64 * 1024 * 1024
NOW = 1_700_000_000_000

Message = tuple[bytes | None, bytes | None]

KINDS: list[tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]] = [
    (b"key", b"value", ()),
    (None, b"no key", ()),
    (b"tombstone", None, (("h", b"1"), ("none", None))),
    (b"", b"", (("größe", b""),)),
    (None, None, ()),
    ("klíč".encode(), "čeština 🙂".encode(), (("twice", b"1"), ("twice", b"2"))),
    (b"long", b"0123456789" * 30, (("long", b"h" * 200),)),
]
"""Keys, values and headers: absent, empty, short, long, not ASCII."""


@dataclass(slots=True)
class Producer:
    """An idempotent producer, transactional or not."""

    id: int
    is_transactional: bool = False
    epoch: int = 0
    sequence: int = 0
    last_offset: int = -1
    coordinator_epoch: int = 3
    open_offsets: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Ending:
    """A transaction marker."""

    producer_id: int
    is_commit: bool
    coordinator_epoch: int


class LogWriter:
    """Appends to a log, and keeps its own account: records, markers and aborted records by offset."""

    def __init__(self, folder: Path, **settings: object) -> None:
        self.folder = folder
        self.settings = LogSettings.parse({name.replace("_", "."): value for name, value in settings.items()})
        self.records: dict[int, Record] = {}
        self.codecs: dict[int, Codec] = {}
        self.endings: dict[int, Ending] = {}
        self.aborted: set[int] = set()
        self.aborted_transactions: list[AbortedTransaction] = []
        self.producers: dict[int, Producer] = {}
        self.leader_epoch = 0
        self.clock_ms = NOW
        self.log = self._opened(Checkpoint())

    def _opened(self, checkpoint: Checkpoint) -> PartitionLog:
        files = OsFiles()
        files.make_directory(str(self.folder))
        return open_log(files, str(self.folder), TopicPartition("t", 0), self.settings, checkpoint)

    def reopen(self) -> None:
        """Take up what lies in the folder, which was all flushed."""
        self.close()
        self.log = self._opened(Checkpoint(recovery_point=self.log.end_offset))

    def close(self) -> None:
        for segment in self.log.segments:
            segment.close()

    def flush(self) -> None:
        run_now(begin_flush(self.log))

    def finish(self) -> None:
        """Seal everything, so that every segment has its tables on disk."""
        if self.log.active.size:
            self.log.roll()
        self.flush()
        self.close()

    def lead(self, epoch: int) -> None:
        self.leader_epoch = epoch
        self.log.become_leader(LeaderEpoch(epoch))

    def send(self, contents: Sequence[Record], codec: Codec = Codec.NONE, producer: Producer | None = None) -> None:
        """Append one batch of these records; their offsets do not matter."""
        base_offset = self.log.end_offset
        self.clock_ms += 10
        records = [Record(i, r.timestamp, r.key, r.value, r.headers) for i, r in enumerate(contents)]
        batch = encode_batch(records, codec=codec)
        if producer is not None:
            batch = encode_batch(
                records,
                codec=codec,
                producer_id=producer.id,
                producer_epoch=producer.epoch,
                base_sequence=producer.sequence,
                is_transactional=producer.is_transactional,
            )
            producer.sequence += len(records)
            producer.last_offset = base_offset + len(records) - 1
            self.producers[producer.id] = producer
        appended = self.log.append(admit(batch, self.settings, self.clock_ms, LIMIT), self.leader_epoch, self.clock_ms)
        assert appended.base_offset == base_offset
        for i, record in enumerate(contents):
            offset = base_offset + i
            self.records[offset] = Record(offset, record.timestamp, record.key, record.value, record.headers)
            self.codecs[offset] = codec
            if producer is not None and producer.is_transactional:
                producer.open_offsets.append(offset)

    def send_pairs(
        self, *pairs: Message, codec: Codec = Codec.NONE, producer: Producer | None = None, step_ms: int = 1
    ) -> None:
        """Append one batch of keys and values, each a little later than the one before."""
        first = self.clock_ms
        self.send([Record(i, first + i * step_ms, *pair) for i, pair in enumerate(pairs)], codec, producer)

    def end(self, producer: Producer, *, is_commit: bool) -> None:
        """Commit or abort a producer's transaction."""
        self.clock_ms += 10
        appended = self.log.append_marker(
            producer.id,
            producer.epoch,
            producer.coordinator_epoch,
            self.leader_epoch,
            self.clock_ms,
            is_commit=is_commit,
        )
        marker_offset = appended.base_offset
        self.endings[marker_offset] = Ending(producer.id, is_commit, producer.coordinator_epoch)
        first_offset, offsets = producer.open_offsets[0], set(producer.open_offsets)
        producer.open_offsets.clear()
        if not is_commit:
            still_open = [other.open_offsets[0] for other in self.producers.values() if other.open_offsets]
            stable = min(still_open, default=marker_offset + 1)
            self.aborted |= offsets
            self.aborted_transactions.append(AbortedTransaction(producer.id, first_offset, marker_offset, stable))

    def forget_from(self, offset: int) -> None:
        """Strike what was cut off from the account."""
        self.records = {at: record for at, record in self.records.items() if at < offset}
        self.endings = {at: ending for at, ending in self.endings.items() if at < offset}
        self.aborted_transactions = [entry for entry in self.aborted_transactions if entry.last_offset < offset]


def some_records(count: int, first_timestamp: int, seed: int = 0) -> list[Record]:
    """Records of every kind, whose timestamps wander back and forth."""
    return [Record(0, first_timestamp + (i * 7919 + seed * 31) % 1000, *KINDS[(seed + i) % 7]) for i in range(count)]
