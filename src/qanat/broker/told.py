"""What an operator should hear of logs, as events (`telemetry.events`)."""

from __future__ import annotations

from collections.abc import Iterable

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
