"""What an operator should hear of logs and groups, as events (`telemetry.events`)."""

from __future__ import annotations

from collections.abc import Iterable

from qanat.groups.consumer.records import ConsumerGroupRecord, ConsumerTombstone, RecordKind
from qanat.groups.records import GroupMetadataRecord, GroupRecord, GroupTombstone
from qanat.log.partition_log import PartitionLog
from qanat.log.scan import Damage
from qanat.model.errors import StorageError
from qanat.telemetry.events import event


def damage(log: PartitionLog, found: Iterable[Damage]) -> None:
    """Records that cannot be read any more."""
    for one in found:
        event(
            "partition is damaged",
            level="error",
            partition=str(log.topic_partition),
            segment=log.segment_at(one.first_offset).file.path,
            byte=one.start,
            offsets=f"{one.first_offset} to {one.next_offset - 1}",
            reason=one.reason,
            advice=f"look with qanat log verify {log.directory}; restore it from a backup",
        )


def directory_failure(error: StorageError) -> None:
    """A disk that can no longer be trusted."""
    event(
        "data directory given up: nothing is accepted any more",
        level="error",
        reason=str(error),
        advice="check the disk, then restart the broker",
    )


def group_changes(records: Iterable[GroupRecord]) -> int:
    """Groups that have a new generation, or are gone; returns how many generations there were."""
    generations = 0
    for record in records:
        if isinstance(record, GroupMetadataRecord):
            generations += 1
            event(
                "group rebalanced" if record.members else "group is empty",
                group=record.group_id,
                generation=record.generation_id,
                members=len(record.members),
                protocol=record.protocol_name or "",
            )
        elif isinstance(record, ConsumerGroupRecord):
            generations += 1
            event("group has a new epoch", group=record.group_id, epoch=record.epoch)
        elif isinstance(record, GroupTombstone) or _is_end_of_group(record):
            event("group deleted", group=record.group_id)
    return generations


def _is_end_of_group(record: GroupRecord) -> bool:
    return isinstance(record, ConsumerTombstone) and record.kind is RecordKind.GROUP
