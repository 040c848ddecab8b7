"""Offsets of an OffsetCommit or a TxnOffsetCommit, row by row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from qanat.groups.requests import OffsetToCommit

if TYPE_CHECKING:
    from qanat.wire.kafka.messages.offset_commit import OffsetCommitRequest
    from qanat.wire.kafka.messages.txn_offset_commit import TxnOffsetCommitRequest


def offsets_of(request: OffsetCommitRequest | TxnOffsetCommitRequest) -> Iterator[OffsetToCommit]:
    for topic in request.topics:
        for one in topic.partitions:
            yield OffsetToCommit(
                topic.name,
                one.partition_index,
                one.committed_offset,
                one.committed_leader_epoch,
                one.committed_metadata,
            )
