"""The durable part of a shard: exactly what its records say, and nothing that they do not.

Live groups (`classic.group`) know more: who is joining, whose session ends
when. All of that may be lost with the process; clients rejoin. What is here
must be the same after every reload.

Rule 1: it changes in `apply` and `apply_marker` only, and these refuse nothing.
"""

from __future__ import annotations

from typing import assert_never

from qanat.groups.offsets import CommittedOffsets
from qanat.groups.records import (
    GroupMetadataRecord,
    GroupRecord,
    GroupTombstone,
    OffsetCommitRecord,
    OffsetTombstone,
)
from qanat.model.ids import NO_PRODUCER_ID


class Ledger:
    """The latest record of every group, and every committed offset."""

    __slots__ = ("groups", "offsets")

    def __init__(self) -> None:
        self.groups: dict[str, GroupMetadataRecord] = {}
        self.offsets = CommittedOffsets()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ledger) and (
            (self.groups, self.offsets.as_values()) == (other.groups, other.offsets.as_values())
        )

    __hash__ = None  # type: ignore[assignment]

    def apply(self, record: GroupRecord, producer_id: int = NO_PRODUCER_ID) -> None:
        """Take a record into account; `producer_id` is that of its batch where the batch is transactional."""
        match record:
            case GroupMetadataRecord():
                self.groups[record.group_id] = record
            case GroupTombstone():
                self.groups.pop(record.group_id, None)
            case OffsetCommitRecord():
                self.offsets.apply(record, producer_id)
            case OffsetTombstone():
                self.offsets.apply_tombstone(record)
            case _:
                assert_never(record)

    def apply_marker(self, producer_id: int, *, is_commit: bool) -> None:
        """Take the end of a producer's transaction into account."""
        self.offsets.end_transaction(producer_id, is_commit=is_commit)

    def group_ids(self) -> list[str]:
        """Every group there is a trace of, in a fixed order."""
        return list({**dict.fromkeys(self.groups), **dict.fromkeys(self.offsets.group_ids())})
