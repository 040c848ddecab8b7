"""Committed offsets: of every group, and those that wait for a transaction's end.

Rule 1: between a plain commit and one inside a transaction, the later record
        in the log counts (KIP-98), whenever the transaction ends.
Rule 2: a tombstone also deletes what an open transaction holds for the partition.
"""

from __future__ import annotations

from typing import NamedTuple

from qanat.groups.records import OffsetCommitRecord, OffsetTombstone
from qanat.model.ids import NO_PRODUCER_ID, TopicPartition


class _Stored(NamedTuple):
    position: int
    """Counts records as they are applied: the offset in the log is not known when a decision is made."""
    record: OffsetCommitRecord


_ByGroup = dict[str, dict[TopicPartition, _Stored]]


class CommittedOffsets:
    """The result of the offset records of one shard."""

    __slots__ = ("_committed", "_open", "_pending", "_position")

    def __init__(self) -> None:
        self._position = 0
        self._committed: _ByGroup = {}
        self._pending: dict[int, _ByGroup] = {}
        self._open: dict[str, dict[int, None]] = {}
        """Producers with an open transaction, by group."""

    def apply(self, record: OffsetCommitRecord, producer_id: int = NO_PRODUCER_ID) -> None:
        self._position += 1
        stored = _Stored(self._position, record)
        if producer_id == NO_PRODUCER_ID:
            _put(self._committed, stored)
        else:
            _put(self._pending.setdefault(producer_id, {}), stored)
            self._open.setdefault(record.group_id, {})[producer_id] = None

    def apply_tombstone(self, tombstone: OffsetTombstone) -> None:
        self._position += 1
        partition = TopicPartition(tombstone.topic, tombstone.partition)
        _take(self._committed, tombstone.group_id, partition)
        for producer_id in self._open.get(tombstone.group_id, ()):
            _take(self._pending[producer_id], tombstone.group_id, partition)

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        """Commit or drop the offsets of the producer's transaction, if it has any."""
        pending = self._pending.pop(producer_id, {})
        for group_id in [group_id for group_id, producers in self._open.items() if producer_id in producers]:
            del self._open[group_id][producer_id]
            if not self._open[group_id]:
                del self._open[group_id]
        if not is_commit:
            return
        for group_id, offsets in pending.items():
            for partition, stored in offsets.items():
                present = self._committed.get(group_id, {}).get(partition)
                if present is None or present.position < stored.position:
                    _put(self._committed, stored)

    def group_ids(self) -> list[str]:
        """Groups with an offset, committed or pending."""
        return list({**dict.fromkeys(self._committed), **dict.fromkeys(self._open)})

    @property
    def count(self) -> int:
        """How many are committed, over all groups."""
        return sum(map(len, self._committed.values()))

    def get(self, group_id: str, partition: TopicPartition) -> OffsetCommitRecord | None:
        stored = self._committed.get(group_id, {}).get(partition)
        return stored.record if stored else None

    def of_group(self, group_id: str) -> list[OffsetCommitRecord]:
        return [stored.record for stored in self._committed.get(group_id, {}).values()]

    def committed_of(self, group_id: str) -> list[TopicPartition]:
        """Partitions with a committed offset of the group."""
        return list(self._committed.get(group_id, ()))

    def partitions_of(self, group_id: str) -> list[TopicPartition]:
        """Partitions with an offset of the group, committed or pending."""
        found = dict.fromkeys(self._committed.get(group_id, ()))
        for producer_id in self._open.get(group_id, ()):
            found |= dict.fromkeys(self._pending[producer_id].get(group_id, ()))
        return list(found)

    def is_pending(self, group_id: str, partition: TopicPartition) -> bool:
        """Whether an open transaction may yet change the group's offset for the partition."""
        producers = self._open.get(group_id, ())
        return any(partition in self._pending[producer_id].get(group_id, ()) for producer_id in producers)

    def as_values(self) -> tuple[object, object]:
        """Committed and pending offsets for comparison: two histories with the same result are equal."""
        pending = {producer_id: _records(by_group) for producer_id, by_group in self._pending.items()}
        return _records(self._committed), {key: value for key, value in pending.items() if value}


def _put(offsets: _ByGroup, stored: _Stored) -> None:
    record = stored.record
    offsets.setdefault(record.group_id, {})[TopicPartition(record.topic, record.partition)] = stored


def _take(offsets: _ByGroup, group_id: str, partition: TopicPartition) -> None:
    """Remove an entry, and its group with the last one."""
    of_group = offsets.get(group_id)
    if of_group is not None:
        of_group.pop(partition, None)
        if not of_group:
            del offsets[group_id]


def _records(offsets: _ByGroup) -> dict[str, dict[TopicPartition, OffsetCommitRecord]]:
    return {
        group_id: {partition: stored.record for partition, stored in of_group.items()}
        for group_id, of_group in offsets.items()
    }
