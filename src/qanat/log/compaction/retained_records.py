"""Retained records: which records compaction keeps, decided per batch, without files.

Pass the new part of the log first (`learn`), then every batch from the
start of the log in order (`clean`).
"""

from __future__ import annotations

from collections.abc import Iterable

from qanat.log.files import Buffer
from qanat.log.producers import Producers
from qanat.log.settings import LogSettings
from qanat.model.errors import QanatError
from qanat.wire.batch_header import BatchHeader
from qanat.wire.filtering import KeyedRecord, read_keys, retain

_BYTES_PER_ENTRY = 160
"""Cost of an entry besides its key: dictionary slot, bytes header, integer. Measured on CPython 3.11."""


class KeyMap:
    """The last offset of every key in a range of the log, in bounded memory."""

    def __init__(self, limit_bytes: int, start_offset: int) -> None:
        self._offsets: dict[bytes, int] = {}
        self._left_bytes = limit_bytes
        self.end_offset = start_offset
        """Every key below this offset is in the map."""

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def is_full(self) -> bool:
        return self._left_bytes <= 0

    def enter(self, records: Iterable[KeyedRecord], next_offset: int) -> None:
        """Add one batch, which ends before `next_offset`."""
        for offset, key, _ in records:
            if key is not None:
                if key not in self._offsets:
                    self._left_bytes -= len(key) + _BYTES_PER_ENTRY
                self._offsets[key] = offset
        self.end_offset = next_offset

    def is_latest(self, record: KeyedRecord) -> bool:
        return record.key is None or self._offsets.get(record.key, -1) <= record.offset


def _decoded(batch: Buffer, limit_bytes: int) -> list[KeyedRecord] | None:
    """The batch's keys, or None where it cannot be opened: then it stays as it is."""
    try:
        return read_keys(batch, limit_bytes)
    except QanatError:
        return None


class Cleaner:
    """Decides batch by batch, in the log's order."""

    def __init__(
        self,
        settings: LogSettings,
        producers: Producers,
        aborted: Iterable[tuple[int, int, int]],
        now_ms: int,
        limit_bytes: int,
        keys: KeyMap,
    ) -> None:
        self.keys = keys
        self._settings = settings
        self._now_ms = now_ms
        self._limit_bytes = limit_bytes
        self._last_offsets = {
            producer_id: state.batches[-1].last_offset
            for producer_id, state in producers.states.items()
            if state.batches
        }
        # Until the new producer writes, only a marker that raised the epoch fences the old one.
        self._epochs = {
            producer_id: state.epoch for producer_id, state in producers.states.items() if not state.batches
        }
        self._aborted: dict[int, list[tuple[int, int]]] = {}
        for producer_id, first, last in aborted:
            self._aborted.setdefault(producer_id, []).append((first, last))
        self._with_batches: set[int] = set()
        """Producers whose current transaction has a batch in the log: its marker is still needed."""

    def learn(self, header: BatchHeader, batch: Buffer) -> None:
        """Enter a batch's keys, except for markers, aborted records and batches that cannot be opened."""
        if header.next_offset > self.keys.end_offset:
            is_counted = not header.is_control and not self._is_aborted(header)
            records = _decoded(batch, self._limit_bytes) if is_counted else None
            self.keys.enter(records or (), header.next_offset)

    def clean(self, header: BatchHeader, batch: Buffer) -> Buffer | None:
        """The batch as it should be: itself where nothing changes, a smaller one, or None where it is removed."""
        if header.base_offset >= self.keys.end_offset:
            return batch
        if header.is_control:
            return self._clean_marker(header, batch)
        if header.is_transactional:
            # A header without records counts as well: replayed without its marker, it would open a transaction.
            self._with_batches.add(header.producer_id)
        records = _decoded(batch, self._limit_bytes)
        if records is None:
            return batch
        if not records or self._is_aborted(header):
            return self._emptied(header, batch)
        return self._clean_records(header, batch, records)

    def _clean_records(self, header: BatchHeader, batch: Buffer, records: list[KeyedRecord]) -> Buffer | None:
        horizon = header.delete_horizon_ms
        is_past_horizon = horizon is not None and horizon <= self._now_ms
        keep = [self.keys.is_latest(record) and not (record.is_tombstone and is_past_horizon) for record in records]
        if not any(keep):
            return self._emptied(header, batch)
        is_new_horizon = horizon is None and any(
            kept and record.is_tombstone for kept, record in zip(keep, records, strict=True)
        )
        if all(keep) and not is_new_horizon:
            return batch
        new_horizon = self._now_ms + self._settings.delete_retention_ms if is_new_horizon else None
        return retain(batch, keep, self._limit_bytes, delete_horizon_ms=new_horizon)

    def _clean_marker(self, header: BatchHeader, batch: Buffer) -> Buffer | None:
        """A marker is removed after its delay, which starts when the last batch of its transaction is removed."""
        is_needed = header.producer_id in self._with_batches
        self._with_batches.discard(header.producer_id)
        horizon = header.delete_horizon_ms
        if is_needed or not header.record_count:
            return batch
        if horizon is None:
            horizon_ms = self._now_ms + self._settings.delete_retention_ms
            return retain(batch, [True] * header.record_count, self._limit_bytes, delete_horizon_ms=horizon_ms)
        is_last_word = self._epochs.get(header.producer_id) == header.producer_epoch
        return batch if horizon > self._now_ms or is_last_word else self._emptied(header, batch)

    def _emptied(self, header: BatchHeader, batch: Buffer) -> Buffer | None:
        """None, or the header alone where a producer's sequence numbers depend on this batch."""
        if self._last_offsets.get(header.producer_id) != header.last_offset:
            return None
        return retain(batch, [False] * header.record_count, self._limit_bytes) if header.record_count else batch

    def _is_aborted(self, header: BatchHeader) -> bool:
        if not header.is_transactional:
            return False
        ranges = self._aborted.get(header.producer_id, ())
        return any(first <= header.base_offset <= last for first, last in ranges)
