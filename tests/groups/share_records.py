"""A share partition, its reads and its acknowledgements, in short words."""

from __future__ import annotations

from typing import Any

from qanat.groups.share.partition import Acknowledgement, AcquiredRange, Read, SharePartition, Span, Take
from qanat.groups.share.record_states import StateBatch
from qanat.groups.share.rules import ShareRules


def partition(start: int = 0, batches: tuple[StateBatch, ...] = (), **rules: Any) -> SharePartition:
    return SharePartition(start, ShareRules(lock_ms=1_000, **rules), batches)


def fetch(
    share: SharePartition, member: str, *spans: Span, now: int = 0, most: int = 100, size: int = 1, exact: bool = False
) -> list[AcquiredRange]:
    """Read these batches from where the partition wants to be read, and take what there is."""
    offset = share.next_fetch_offset(now)
    if offset is None:
        return []
    read = Read(offset, [span for span in spans if span.last_offset >= offset], spans[-1].last_offset + 1)
    return share.acquire(member, read, Take(most, size, exact), now)


def say(share: SharePartition, member: str, first: int, last: int, *kinds: int, now: int = 0) -> Any:
    return share.acknowledge(member, [Acknowledgement(first, last, list(kinds))], now)
