"""What a transaction needs of a consumer to commit its offsets: who commits, and whether the partitions stay its own.

A rebalance gives every member a new epoch, also those that keep their partitions; the coordinator refuses the old one
(KIP-447). A claim tells the two cases apart: while it holds, the same offsets may be sent again with the new epoch.

Rule 1: a claim ends with the first of its partitions that goes, even if the consumer gets it back: another member may
        have committed in between.
Rule 2: a claim ends where the group knows this consumer under another id: it was removed, and others had its part.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from qanat.client.consumer.group_metadata import ConsumerGroupMetadata
from qanat.client.errors import TransactionError
from qanat.model.ids import TopicPartition

if TYPE_CHECKING:
    from qanat.client.consumer.consumer_core import ConsumerCore


class OffsetClaim:
    """Offsets of a consumer that go into a transaction. Its members only read: any thread may call them."""

    def __init__(self, core: ConsumerCore, offsets: Mapping[TopicPartition, int]) -> None:
        """Raises `TransactionError` where the records below these offsets were not read by the current assignment."""
        self._core = core
        self._member_id = core.group_metadata.member_id
        mine = core.buffer.partitions
        gone = [at for at, offset in offsets.items() if at not in mine or core.buffer.was_read_before(at, offset)]
        if gone:
            raise self._late(", ".join(map(str, sorted(gone))))
        self._held = {at: mine[at] for at in offsets}
        self.member()

    def member(self) -> ConsumerGroupMetadata:
        """Who commits, as the group knows it now; raises `TransactionError` once a partition has gone."""
        who = self._core.group_metadata
        mine = self._core.buffer.partitions  # Read last: what is held now was held in that epoch.
        if who.generation_or_epoch <= 0 or who.member_id != self._member_id:
            raise self._late("every partition")
        for at, one in self._held.items():
            if mine.get(at) is not one:
                raise self._late(str(at))
        return who

    def _late(self, what: str) -> TransactionError:
        group = self._core.settings.group_id
        return TransactionError(
            f"group {group} has moved on: {what} may belong to another member since these records were read; "
            "rewind the consumer"
        )
