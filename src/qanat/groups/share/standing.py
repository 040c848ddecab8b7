"""How far a share group is in a partition, and what administrators may do about it.

The ledger of a partition's records (who holds which, how often each was delivered) lives beside `__share_group_state`;
groups know only what is here. `SharePartitions` is what the doors and the group coordinator ask of it.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from qanat.groups.consumer.records import TopicIdPartition
from qanat.model.error_codes import ErrorCode
from qanat.model.ids import NO_LEADER_EPOCH, NO_OFFSET


class ShareStanding(Struct, frozen=True):
    """Where a group stands in a partition; without an offset where nobody has fetched from it yet."""

    start_offset: int = NO_OFFSET
    """Everything before it is done: accepted, rejected, given up or gone."""
    leader_epoch: int = NO_LEADER_EPOCH
    done_count: int = 0
    """Records at or behind the start offset that are done already: they do not count as lag."""
    error: ErrorCode = ErrorCode.NONE


class SharePartitions(Protocol):
    """The state that share groups keep for partitions."""

    async def standing(self, group_id: str, at: TopicIdPartition) -> ShareStanding:
        """Where the group stands; never creates anything."""

    async def reset(self, group_id: str, at: TopicIdPartition, start_offset: int) -> ErrorCode:
        """Begin anew at an offset: locks and delivery counts are forgotten. Durable when this returns.

        The caller has seen to it that the group has no members.
        """

    async def forget(self, group_id: str, at: TopicIdPartition) -> ErrorCode:
        """Forget everything about the group in this partition; it is no error where nothing is known."""
