"""What a log was told to do, and so what it may hold after a crash: the model that recovery is held to.

Everything is noted *before* the log does it, because power can go out at any
operation on the way. What is certain only afterwards (a flush, a finished
removal) is noted then.

    newest_start .. durable_end     must be there, whatever happened
    oldest_start .. end             may be there: a prefix of what was appended

Rule: only `wire` and the producers' replay are shared with the product; which batch
is where, which survives and which is replaced is worked out here from the plain list.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from qanat.log.leader_epochs import EpochStart
from qanat.log.producers import Producers
from qanat.log.segments.aborted_index import AbortedTransaction
from qanat.model.ids import LeaderEpoch, Offset
from qanat.wire.batch_header import BatchHeader, read_header
from qanat.wire.records import Record, decode_records

_LIMIT_BYTES = 1 << 26


@dataclass(frozen=True, slots=True)
class Entry:
    """One batch as it should stand in the log."""

    header: BatchHeader
    content: bytes
    records: tuple[Record, ...]

    @staticmethod
    def of(content: bytes) -> Entry:
        return Entry(read_header(content), content, tuple(decode_records(content, _LIMIT_BYTES)))

    @property
    def base_offset(self) -> int:
        return self.header.base_offset

    @property
    def next_offset(self) -> int:
        return self.header.next_offset


@dataclass(slots=True)
class History:
    """All that was appended to one log and not cut off again, and what became of it."""

    entries: list[Entry] = field(default_factory=list)
    durable_end: int = 0
    oldest_start: int = 0
    newest_start: int = 0
    log_starts: list[int] = field(default_factory=list)
    """Every start that the log was given by deleting records: its epochs may be cut there, before the
    checkpoint of log starts knows (as in Kafka)."""
    restart_at: int | None = None
    """Where the log goes on empty, while that is being brought about."""
    is_compacted: bool = False
    removable: set[int] = field(default_factory=set)
    """Offsets that a compaction that was begun may have removed."""
    gone: set[int] = field(default_factory=set)
    """Offsets that a finished compaction must have removed."""
    forgets_producers: bool = False
    """Compaction keeps a producer's last batch; a cut takes that, and nothing is left of what came before."""
    first_seen_ms: dict[int, int] = field(default_factory=dict)
    """When compaction first came by a tombstone or a marker that it had to leave."""

    @property
    def end(self) -> int:
        return self.entries[-1].next_offset if self.entries else self.newest_start

    def append(self, entry: Entry) -> None:
        assert entry.base_offset == self.end, f"batch at {entry.base_offset}, but the log ends at {self.end}"
        self.entries.append(entry)

    def take_back(self, count: int = 1) -> None:
        """The last append was refused; of a file with so many batches."""
        del self.entries[-count:]

    def flushed(self, end_offset: int) -> None:
        self.durable_end = max(self.durable_end, end_offset)

    # Cutting

    def begin_truncation(self, end_offset: int, first_base: int) -> None:
        """Cut back to `end_offset` or the batch that holds it; before the first segment the log starts afresh there."""
        self.durable_end = min(self.durable_end, self._end_after_cut(end_offset))
        if end_offset < first_base:
            self.begin_restart(end_offset)

    def begin_restart(self, offset: int) -> None:
        self.durable_end = 0
        self.restart_at = offset

    @property
    def is_empty_at_restart(self) -> bool:
        """Whether the log held nothing and ended there before it was told to go on there empty."""
        return self.oldest_start == self.end == self.restart_at

    def _end_after_cut(self, end_offset: int) -> int:
        """Where the last batch ends that is before the cut and certainly still there."""
        kept = [entry for entry in self.entries if entry.next_offset <= end_offset and not self.may_be_gone(entry)]
        return max((entry.next_offset for entry in kept), default=0)

    def may_be_gone(self, entry: Entry) -> bool:
        """Whether compaction may have left nothing of a batch."""
        return all(record.offset in self.removable for record in entry.records)

    def finish_cut(self, end_offset: int) -> None:
        """The log now ends at `end_offset`, durably."""
        self.entries = [entry for entry in self.entries if entry.next_offset <= end_offset]
        if self.restart_at is not None:
            self.entries.clear()
            self.log_starts.clear()
            self.oldest_start = self.newest_start = end_offset
        self.forgets_producers = self.is_compacted and bool(self.entries)
        self.restart_at = None
        self.durable_end = end_offset
        self.removable = {offset for offset in self.removable if offset < end_offset}
        self.gone = {offset for offset in self.gone if offset < end_offset}
        self.first_seen_ms = {offset: ms for offset, ms in self.first_seen_ms.items() if offset < end_offset}

    def finish_crash(self, first_base: int, end_offset: int) -> None:
        """Recovery found the log from `first_base` to `end_offset`, and that is durable now."""
        self.finish_cut(end_offset)
        self.oldest_start = self.newest_start = first_base

    # Letting go

    def begin_deletion(self, first_kept: int) -> None:
        self.newest_start = max(self.newest_start, first_kept)

    def finish_deletion(self) -> None:
        self.oldest_start = self.newest_start

    def begin_compaction(self, end_offset: int, now_ms: int, delete_retention_ms: int) -> set[int]:
        """A pass over everything below `end_offset`; returns what it will certainly have removed once it is through."""
        self.is_compacted = True
        aborted = self.aborted(self.end)
        latest: dict[bytes, int] = {}
        replaced: set[int] = set()
        for entry in self._below(end_offset):
            is_aborted = not entry.header.is_control and is_covered(entry.header, aborted)
            for record in entry.records:
                is_late = self.first_seen_ms.setdefault(record.offset, now_ms) + delete_retention_ms <= now_ms
                if is_aborted:
                    replaced.add(record.offset)
                elif entry.header.is_control or record.value is None:
                    self.removable |= {record.offset} if is_late else set()
                if not is_aborted and not entry.header.is_control and record.key is not None:
                    if record.key in latest:
                        replaced.add(latest[record.key])
                    latest[record.key] = record.offset
        self.removable |= replaced
        return replaced

    def finish_compaction(self, replaced: set[int]) -> None:
        self.gone |= replaced

    def _below(self, end_offset: int) -> list[Entry]:
        return [entry for entry in self.entries if entry.base_offset < end_offset]

    # What follows from the batches

    def producers(self, end_offset: int) -> Producers:
        """Producers after a replay of everything below `end_offset`."""
        return self._replayed(end_offset)[0]

    def aborted(self, end_offset: int) -> list[AbortedTransaction]:
        """Aborted transactions whose marker lies below `end_offset`, in the order of their markers."""
        return self._replayed(end_offset)[1]

    def _replayed(self, end_offset: int) -> tuple[Producers, list[AbortedTransaction]]:
        producers = Producers()
        aborted: list[AbortedTransaction] = []
        for entry in self._below(end_offset):
            completed = producers.replay(entry.header, entry.content, entry.header.max_timestamp)
            if completed is not None and completed.is_aborted:
                aborted.append(completed.as_aborted())
        return producers, aborted

    def epochs(self, log_start_offset: int, end_offset: int) -> list[EpochStart]:
        """Which leader wrote from where on, as far as it wrote anything below `end_offset`."""
        starts: list[EpochStart] = []
        for entry in self._below(end_offset):
            epoch = entry.header.leader_epoch
            if not starts or starts[-1].epoch != epoch:
                starts.append(EpochStart(LeaderEpoch(epoch), Offset(entry.base_offset)))
        spanning = [start for start in starts if start.start_offset <= log_start_offset < end_offset][-1:]
        later = [start for start in starts if start.start_offset > log_start_offset]
        return [EpochStart(start.epoch, Offset(log_start_offset)) for start in spanning] + later


def is_covered(header: BatchHeader, aborted: list[AbortedTransaction]) -> bool:
    """Whether a batch belongs to one of these aborted transactions."""
    return header.is_transactional and any(
        entry.producer_id == header.producer_id and entry.first_offset <= header.base_offset <= entry.last_offset
        for entry in aborted
    )
