"""The durable part of a shard: exactly what its records say, and nothing else.

Live groups (`classic.group`) know more: which members are joining, when sessions
end. All of that may be lost with the process; clients rejoin. The ledger
must be the same after every reload.

Rule 1: it changes in `apply` and `apply_marker` only, and these refuse nothing.
"""

from __future__ import annotations

from qanat.groups.consumer.group import ConsumerGroup
from qanat.groups.consumer.records import ConsumerRecord, ConsumerTombstone, RecordKind
from qanat.groups.offsets import CommittedOffsets
from qanat.groups.records import (
    GroupMetadataRecord,
    GroupRecord,
    GroupTombstone,
    OffsetCommitRecord,
    OffsetTombstone,
)
from qanat.groups.share.group import ShareGroup
from qanat.groups.share.records import ShareGroupTombstone, ShareRecord, ShareRecordKind
from qanat.model.ids import NO_PRODUCER_ID


class Ledger:
    """The latest record of every classic group, groups of the new protocol, share groups, every committed offset."""

    __slots__ = ("consumers", "groups", "offsets", "shares")

    def __init__(self) -> None:
        self.groups: dict[str, GroupMetadataRecord] = {}
        self.consumers: dict[str, ConsumerGroup] = {}
        self.shares: dict[str, ShareGroup] = {}
        self.offsets = CommittedOffsets()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ledger) and self._as_values() == other._as_values()

    def _as_values(self) -> tuple[object, ...]:
        consumers = {group_id: group.as_values() for group_id, group in self.consumers.items()}
        shares = {group_id: group.as_values() for group_id, group in self.shares.items()}
        return self.groups, consumers, shares, self.offsets.as_values()

    __hash__ = None  # type: ignore[assignment]

    def apply(self, record: GroupRecord, producer_id: int = NO_PRODUCER_ID) -> None:
        """Apply a record; `producer_id` is that of its batch where the batch is transactional."""
        match record:
            case GroupMetadataRecord():
                self.groups[record.group_id] = record
            case GroupTombstone():
                self.groups.pop(record.group_id, None)
            case OffsetCommitRecord():
                self.offsets.apply(record, producer_id)
            case OffsetTombstone():
                self.offsets.apply_tombstone(record)
            case _ if isinstance(record, ConsumerRecord):
                self._apply_consumer(record)
            case _:
                self._apply_share(record)

    def _apply_consumer(self, record: ConsumerRecord) -> None:
        """With the tombstone of its own record a group is gone, whatever compaction has left of it."""
        if isinstance(record, ConsumerTombstone):
            if record.kind is RecordKind.GROUP:
                self.consumers.pop(record.group_id, None)
            elif record.group_id in self.consumers:
                self.consumers[record.group_id].apply(record)
            return
        group = self.consumers.get(record.group_id)
        if group is None:
            group = self.consumers[record.group_id] = ConsumerGroup(record.group_id)
        group.apply(record)

    def _apply_share(self, record: ShareRecord) -> None:
        """The same for share groups."""
        if isinstance(record, ShareGroupTombstone):
            if record.kind is ShareRecordKind.GROUP:
                self.shares.pop(record.group_id, None)
            elif record.group_id in self.shares:
                self.shares[record.group_id].apply(record)
            return
        group = self.shares.get(record.group_id)
        if group is None:
            group = self.shares[record.group_id] = ShareGroup(record.group_id)
        group.apply(record)

    def apply_marker(self, producer_id: int, *, is_commit: bool) -> None:
        """Apply the end of a producer's transaction."""
        self.offsets.end_transaction(producer_id, is_commit=is_commit)

    def group_ids(self) -> list[str]:
        """Every group with a record, in a fixed order."""
        found = {**dict.fromkeys(self.groups), **dict.fromkeys(self.consumers), **dict.fromkeys(self.shares)}
        return list({**found, **dict.fromkeys(self.offsets.group_ids())})
