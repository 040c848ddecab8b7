"""Batches that push producers have just appended: subscribers at the end of a partition get these bytes, not the log's.

Rule: a batch is kept only as the log has it, byte for byte; it is delivered only once it may be read, to a subscriber
      whose next offset is its first, by the leadership that appended it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from qanat.model.ids import TopicPartition
from qanat.wire.batch_header import patch

if TYPE_CHECKING:
    from qanat.broker.replicas.partition import Partition

PARTITIONS_MAX = 64
BYTES_MAX = 16 * 1024
"""A larger batch is read from the log."""


class FreshBatch(NamedTuple):
    """One batch of visible records: none of a transaction, no marker."""

    partition: Partition
    leader_epoch: int
    base_offset: int
    next_offset: int
    view: memoryview


class FreshBatches:
    """The last batch of each partition that was written lately."""

    def __init__(self) -> None:
        self._found: dict[TopicPartition, FreshBatch] = {}

    def appended(self, partition: Partition, batch: bytearray, base_offset: int, count: int) -> None:
        """A batch of new records was appended; its bytes are no longer the caller's."""
        if len(batch) > BYTES_MAX or not partition.log.settings.keeps_batches:
            return
        epoch = int(partition.leader_epoch)
        patch(batch, base_offset, epoch)
        if len(self._found) >= PARTITIONS_MAX:
            self._found.clear()
        self._found[partition.at] = FreshBatch(partition, epoch, base_offset, base_offset + count, memoryview(batch))

    def find(self, partition: Partition, offset: int, end_offset: int) -> FreshBatch | None:
        """The batch at an offset, below the end of reading."""
        found = self._found.get(partition.at)
        if found is None or found.base_offset != offset or found.next_offset > end_offset:
            return None
        return found if found.partition is partition else None
