"""Log events about consumer groups and share groups (`telemetry.events`)."""

from __future__ import annotations

from collections.abc import Iterable

from qanat.groups.consumer.records import ConsumerGroupRecord, ConsumerTombstone, RecordKind
from qanat.groups.records import GroupMetadataRecord, GroupRecord, GroupTombstone
from qanat.groups.share.records import ShareGroupRecord, ShareGroupTombstone, ShareRecordKind
from qanat.telemetry.events import log_event


def group_changes(records: Iterable[GroupRecord]) -> int:
    """Log groups that have a new generation, or were deleted; returns how many generations there were."""
    generations = 0
    for record in records:
        if isinstance(record, GroupMetadataRecord):
            generations += 1
            log_event(
                "group rebalanced" if record.members else "group is empty",
                group=record.group_id,
                generation=record.generation_id,
                members=len(record.members),
                protocol=record.protocol_name or "",
            )
        elif isinstance(record, ConsumerGroupRecord | ShareGroupRecord):
            generations += 1
            log_event("group has a new epoch", group=record.group_id, epoch=record.epoch)
        elif isinstance(record, GroupTombstone) or _is_end_of_group(record):
            log_event("group deleted", group=record.group_id)
    return generations


def _is_end_of_group(record: GroupRecord) -> bool:
    if isinstance(record, ShareGroupTombstone):
        return record.kind is ShareRecordKind.GROUP
    return isinstance(record, ConsumerTombstone) and record.kind is RecordKind.GROUP
