"""The records of `__share_group_state`, as values: the ledger of share partitions consists of them.

A snapshot is the whole state of one partition for one group; the updates after it hold the changes
since. A snapshot without a value deletes the state. Their bytes are Kafka's own (`state_codec`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from qanat.groups.share.record_states import StateBatch
from qanat.model.ids import TopicId


class ShareKey(NamedTuple):
    """One partition as one group sees it."""

    group_id: str
    topic_id: bytes
    partition: int

    def __str__(self) -> str:
        """Decides the partition of the internal topic; Kafka's form."""
        return f"{self.group_id}:{TopicId.of(self.topic_id)}:{self.partition}"


@dataclass(frozen=True, slots=True)
class ShareSnapshot:
    """The whole state of a partition."""

    key: ShareKey
    snapshot_epoch: int
    """Counts the partition's snapshots."""
    state_epoch: int
    """Counts how often it was initialized."""
    leader_epoch: int
    start_offset: int
    batches: tuple[StateBatch, ...] = ()
    created_ms: int = 0
    written_ms: int = 0


@dataclass(frozen=True, slots=True)
class ShareUpdate:
    """What changed since the snapshot, or the update, before."""

    key: ShareKey
    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    batches: tuple[StateBatch, ...] = ()


@dataclass(frozen=True, slots=True)
class ShareTombstone:
    """The state is deleted."""

    key: ShareKey


LedgerRecord: TypeAlias = ShareSnapshot | ShareUpdate | ShareTombstone
