"""The history of a log's operations: the model of what the log may hold after a crash.

The rig records each operation *before* the log runs it, because the power may be cut at any step of it. It records what
is certain only afterwards (a flush, a completed removal) then.

    newest_start .. durable_end     must be there
    oldest_start .. end             may be there: a prefix of what was appended

Rule: the model shares only `wire` and the producers' replay with the product; it derives the place, survival and
replacement of batches from the plain list.
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
    """The appended and not truncated batches of one log, and what happened to them."""

    entries: list[Entry] = field(default_factory=list)
    durable_end: int = 0
    oldest_start: int = 0
    newest_start: int = 0
    log_starts: list[int] = field(default_factory=list)
    """Every log start that deleted records set: the epochs may be cut there before the checkpoint of log starts is
    written (as in Kafka)."""
    restart_at: int | None = None
    """The offset at which the log continues empty, while a restart is in progress."""
    is_compacted: bool = False
    removable: set[int] = field(default_factory=set)
    """Offsets that a started compaction may have removed."""
    gone: set[int] = field(default_factory=set)
    """Offsets that a completed compaction must have removed."""
    forgets_producers: bool = False
    """Compaction leaves a producer's last batch; a truncation may remove that one too, and then nothing is left."""
    first_seen_ms: dict[int, int] = field(default_factory=dict)
    """When compaction first saw a tombstone or a marker that it had to retain."""

    @property
    def end(self) -> int:
        return self.entries[-1].next_offset if self.entries else self.newest_start

    def append(self, entry: Entry) -> None:
        assert entry.base_offset == self.end, f"batch at {entry.base_offset}, but the log ends at {self.end}"
        self.entries.append(entry)

    def take_back(self, count: int = 1) -> None:
        """The log refused the last append, of so many batches."""
        del self.entries[-count:]

    def flushed(self, end_offset: int) -> None:
        self.durable_end = max(self.durable_end, end_offset)

    # Truncation

    def begin_truncation(self, end_offset: int, first_base: int) -> None:
        """Truncate to `end_offset` or to the batch that holds it; below the first segment the log restarts there."""
        self.durable_end = min(self.durable_end, self._end_after_cut(end_offset))
        if end_offset < first_base:
            self.begin_restart(end_offset)

    def begin_restart(self, offset: int) -> None:
        self.durable_end = 0
        self.restart_at = offset

    @property
    def is_empty_at_restart(self) -> bool:
        """Whether the log was already empty and ended there before the restart."""
        return self.oldest_start == self.end == self.restart_at

    def _end_after_cut(self, end_offset: int) -> int:
        """The end of the last batch below the cut that is certainly still there."""
        certain = [entry for entry in self.entries if entry.next_offset <= end_offset and not self.may_be_gone(entry)]
        return max((entry.next_offset for entry in certain), default=0)

    def may_be_gone(self, entry: Entry) -> bool:
        """Whether compaction may have removed a whole batch."""
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
        """Recovery found the log from `first_base` to `end_offset`, which is durable now."""
        self.finish_cut(end_offset)
        self.oldest_start = self.newest_start = first_base

    # Deletion and compaction

    def begin_deletion(self, first_kept: int) -> None:
        self.newest_start = max(self.newest_start, first_kept)

    def finish_deletion(self) -> None:
        self.oldest_start = self.newest_start

    def begin_compaction(self, end_offset: int, now_ms: int, delete_retention_ms: int) -> set[int]:
        """Start a compaction below `end_offset`; returns the offsets that it will certainly have removed at its end."""
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

    # State derived from the batches

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
        """The start offsets of leader epochs that have batches below `end_offset`."""
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
