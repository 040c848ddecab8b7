"""A share group's progress in a partition, and what administrators may do about it.

The ledger of a partition's records (which member holds which, how often each was delivered) is in
`__share_group_state`; groups know only what is here. `SharePartitions` is the port to it, for handlers and the group
coordinator.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from qanat.groups.consumer.records import TopicIdPartition
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import NO_LEADER_EPOCH, NO_OFFSET


class ShareStanding(Struct, frozen=True):
    """A group's progress in a partition; without an offset where no member has fetched from it yet."""

    start_offset: int = NO_OFFSET
    """Everything before it is finished: accepted, rejected, archived or deleted."""
    leader_epoch: int = NO_LEADER_EPOCH
    done_count: int = 0
    """Finished records at or behind the start offset: they do not count as lag."""
    error: ErrorCode = ErrorCode.NONE


class SharePartitions(Protocol):
    """The state of share groups in partitions."""

    async def standing(self, group_id: str, at: TopicIdPartition) -> ShareStanding:
        """The group's progress; never creates anything."""

    async def reset(self, group_id: str, at: TopicIdPartition, start_offset: int) -> ErrorCode:
        """Start again at an offset: locks and delivery counts are dropped. Durable when this returns.

        The caller has checked that the group has no members.
        """

    async def forget(self, group_id: str, at: TopicIdPartition) -> ErrorCode:
        """Delete the group's state in this partition; it is no error where there is none."""
