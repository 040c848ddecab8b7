"""Log compaction: of every key, the latest value stays.

One pass reads the keys of everything appended since the last pass, then
writes the log again from its start up to there, without the records that a later
one replaces. Offsets do not change; a batch stays at its offset even if it loses
all its records.

Removed, besides replaced records: records of aborted transactions;
tombstones, and markers of transactions that have no record left, once their
delay (`delete.retention.ms`, KIP-534) has passed.
Retained regardless of keys: batches that cannot be decoded, records without a key, and
the last batch of every producer, which its sequence numbers depend on.

Commit: `<base>-<end>.cleaned` is written and synced, then renamed to `.swap`.
From then on it replaces all segments in its range (`recovery.compaction_commit`),
crash or not. `retained_records` decides which records stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from qanat.log.compaction.retained_records import Cleaner, KeyMap
from qanat.log.files import File
from qanat.log.partition_log import PartitionLog
from qanat.log.recovery.compaction_commit import finish_commit
from qanat.log.segments import file_names
from qanat.log.segments.batch_scan import Damage, read_batches
from qanat.log.segments.header_digest import EMPTY, extended
from qanat.log.segments.segment import Segment
from qanat.log.settings import DirectorySettings
from qanat.model.errors import CorruptLogError, DiskFullError, StorageError
from qanat.wire.batch_header import BatchHeader

Throttle = Callable[[int], None]
"""Called with the number of bytes read or written; may block for a while."""

_WRITE_BYTES = 1024 * 1024


def cleanable_segments(log: PartitionLog, now_ms: int) -> list[Segment]:
    """Sealed segments, oldest first, in which every record is decided and old enough."""
    unstable = log.producers.first_unstable_offset(log.high_watermark)
    bound = log.high_watermark if unstable is None else min(unstable, log.high_watermark)
    newest = now_ms - log.settings.min_compaction_lag_ms
    cleanable: list[Segment] = []
    for segment in log.segments:
        is_young = log.settings.min_compaction_lag_ms > 0 and segment.max_timestamp > newest
        if not segment.is_sealed or segment.next_offset > bound or is_young:
            break
        cleanable.append(segment)
    return cleanable


def dirty_ratio(log: PartitionLog, now_ms: int) -> float:
    """Share of the cleanable bytes that no pass has processed yet."""
    cleanable = cleanable_segments(log, now_ms)
    dirty = sum(segment.size for segment in cleanable if segment.next_offset > log.cleaned_offset)
    return dirty / (sum(segment.size for segment in cleanable) or 1)


def is_compaction_due(log: PartitionLog, now_ms: int) -> bool:
    """Whether enough is dirty, or a record has waited too long. A damaged log is not compacted until it is repaired."""
    if not log.settings.is_compacted or log.running_job is not None or log.damage:
        return False
    dirty = [segment for segment in cleanable_segments(log, now_ms) if segment.next_offset > log.cleaned_offset]
    oldest = min((segment.max_timestamp for segment in dirty if segment.max_timestamp >= 0), default=now_ms)
    is_overdue = now_ms - oldest > log.settings.max_compaction_lag_ms
    return bool(dirty) and (is_overdue or dirty_ratio(log, now_ms) >= log.settings.min_cleanable_dirty_ratio)


class CompactJob:
    """One pass over a log."""

    def __init__(self, log: PartitionLog, limits: DirectorySettings, now_ms: int, throttle: Throttle) -> None:
        self._log = log
        self._segments = cleanable_segments(log, now_ms)
        for index in range(len(self._segments)):
            # Readers may come until `finish`, with or without file names. An event loop opened the tables before
            # (`unready_segments`).
            log.usable(index)
        self._epochs = log.epochs.entries
        self._throttle = throttle
        self._dirty_from = log.cleaned_offset
        keys = KeyMap(limits.log_cleaner_dedupe_buffer_size, self._dirty_from)
        # A transaction's marker, which says that it was aborted, may be in a later segment.
        end_offset = self._segments[-1].next_offset
        aborted = [entry[:3] for entry in log.aborted_transactions(self._segments[0].base_offset, end_offset)]
        self._cleaner = Cleaner(log.settings, log.producers, aborted, now_ms, limits.log_decompressed_bytes_max, keys)
        self._committed: list[tuple[list[Segment], Segment]] = []
        self._damaged: list[tuple[Segment, tuple[Damage, ...]]] = []
        self.damage: tuple[Damage, ...] = ()
        """Damage that the pass has found and that was not known before."""
        log.running_job = "compaction"

    def run(self) -> None:
        try:
            self._learn_keys()
            for group in self._groups():
                cleaned = self._write_cleaned(group)
                if cleaned is not None:
                    self._committed.append((group, self._commit(group, cleaned)))
        except CorruptLogError:
            # Committed groups stay; the rest waits until the damage, which is located now, is repaired.
            for segment in self._segments:
                if not self._is_committed(segment):
                    self._damaged.append((segment, segment.find_damage(self._epochs)))

    def _is_committed(self, segment: Segment) -> bool:
        return any(segment in group for group, _ in self._committed)

    def _batches(self, segment: Segment) -> Iterator[tuple[BatchHeader, memoryview]]:
        position, digest = 0, EMPTY
        for position, header, batch in read_batches(
            segment.file, 0, segment.size, segment.base_offset, segment.next_offset
        ):
            self._throttle(header.size)
            yield header, batch
            digest = extended(digest, header.base_offset, header.leader_epoch)
            position += header.size
        if position < segment.size:
            raise CorruptLogError(f"{segment.file.path} is damaged at byte {position}")
        if segment.headers is not None and digest != segment.headers.digest:
            raise CorruptLogError(f"{segment.file.path} has other offsets or leader epochs than it was written with")

    def _learn_keys(self) -> None:
        keys = self._cleaner.keys
        for segment in self._segments:
            if segment.next_offset <= self._dirty_from:
                continue
            for header, batch in self._batches(segment):
                if keys.is_full:
                    return
                self._cleaner.learn(header, batch)
            keys.end_offset = segment.next_offset

    def _groups(self) -> Iterator[list[Segment]]:
        """Neighbours that fit into one segment together, as far as the keys are known."""
        group: list[Segment] = []
        for segment in self._segments:
            if segment.base_offset >= self._cleaner.keys.end_offset:
                break
            joined = sum(member.size for member in group) + segment.size
            is_too_wide = bool(group) and segment.next_offset - group[0].base_offset > 2**31 - 1
            if group and (joined > self._log.settings.segment_bytes or is_too_wide):
                yield group
                group = []
            group.append(segment)
        if group:
            yield group

    def _write_cleaned(self, group: list[Segment]) -> File | None:
        """The group's remaining batches in a file of their own, durable; None where nothing would change."""
        log = self._log
        path = file_names.swap_file(log.directory, group[0].base_offset, group[-1].next_offset, file_names.CLEANED)
        file = log.files.open(path, create=True)
        is_needed = False
        try:
            is_needed = self._write_kept(group, file) or len(group) > 1
        finally:
            if not is_needed:
                log.files.remove(path)
                file.close()
        if not is_needed:
            return None
        file.sync()
        return file

    def _write_kept(self, group: list[Segment], file: File) -> bool:
        """Write the batches that stay of a group; returns whether they differ from the old ones."""
        is_changed = False
        position, buffer = 0, bytearray()
        for header, batch in (pair for segment in group for pair in self._batches(segment)):
            kept = self._cleaner.clean(header, batch)
            is_changed = is_changed or kept is not batch
            buffer += kept or b""
            if len(buffer) >= _WRITE_BYTES:
                self._throttle(len(buffer))
                position += file.write((bytes(buffer),), position)
                buffer.clear()
        self._throttle(len(buffer))
        file.write((bytes(buffer),), position)
        return is_changed

    def _commit(self, group: list[Segment], file: File) -> Segment:
        """Put a cleaned file in the place of its group, on disk; readers still hold the old segments."""
        log = self._log
        aborted = [entry for old in group for entry in old.tables.aborted]
        file.rename(file_names.swap_file(log.directory, group[0].base_offset, group[-1].next_offset, file_names.SWAP))
        try:
            log.files.sync_directory(log.directory)
            return finish_commit(log.files, log.directory, file, log.settings.index_interval_bytes, aborted)
        except DiskFullError as error:
            # Decided and half done: this cannot be postponed, or a later pass would meet the same name. The directory
            # fails, and the next start finishes the commit.
            raise StorageError(f"a compaction of {log.topic_partition} could not be finished: {error}") from error

    def finish(self) -> None:
        log = self._log
        for group, segment in self._committed:
            at = log.segments.index(group[0])
            log.segments[at : at + len(group)] = [segment]
            for old in group:
                old.close()
        for segment, damage in self._damaged:
            self.damage += segment.note_damage(damage)
        if not self._damaged:
            log.cleaned_offset = max(log.cleaned_offset, self._cleaner.keys.end_offset)
        log.running_job = None


def unready_segments(log: PartitionLog, now_ms: int) -> list[Segment]:
    """Segments that a pass begins with and whose tables are not open yet."""
    cleanable = cleanable_segments(log, now_ms)
    unready = [segment for segment in cleanable if not segment.tables.is_checked]
    if cleanable and not unready:
        later = log.unready_for_aborted(cleanable[0].base_offset, cleanable[-1].next_offset)
        return [later] if later is not None else []
    return unready


def begin_compaction(
    log: PartitionLog, limits: DirectorySettings, now_ms: int, throttle: Throttle = lambda _: None
) -> CompactJob | None:
    """A pass over what is cleanable now; None where there is nothing, or the log is busy or damaged."""
    if log.running_job is not None or log.damage or not cleanable_segments(log, now_ms):
        return None
    return CompactJob(log, limits, now_ms, throttle)
