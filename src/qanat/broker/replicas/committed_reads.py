"""Reads of committed batches of a partition that this broker leads, for what is no Fetch: push, and the way up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qanat.broker.replicas.partition import Partition
    from qanat.wire.visible_batches import Aborted


@dataclass(frozen=True, slots=True)
class ReadBatches:
    """Batches that were read, and the aborted transactions among them."""

    views: Sequence[memoryview]
    aborted: Sequence[Aborted]
    next_offset: int


def read_here(partition: Partition, offset: int, max_bytes: int) -> ReadBatches | None:
    """What is in memory; empty at the end of the partition, None where the read must wait for the disk."""
    end_offset = partition.end_of_reading(is_committed=True)
    read = partition.read_now(offset, max_bytes, end_offset)
    if read is None or not partition.has_aborted_in_memory(offset, read.next_offset):
        return None
    aborted = partition.log.aborted_transactions(offset, read.next_offset) if read.slices else ()
    return ReadBatches(read.views(), aborted, read.next_offset)


async def read_cold(partition: Partition, offset: int, max_bytes: int) -> ReadBatches:
    """The same, waiting for the disk."""
    end_offset = partition.end_of_reading(is_committed=True)
    read = await partition.read(offset, max_bytes, end_offset)
    await partition.load_aborted(offset, read.next_offset)
    return ReadBatches(read.views(), partition.log.aborted_transactions(offset, read.next_offset), read.next_offset)
