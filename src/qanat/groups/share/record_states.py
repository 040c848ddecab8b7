"""States of a record in a share group, and ranges of neighbouring records with equal states.

The numbers are Kafka's. `ACQUIRED` is never written: after a crash
its records are available again, with the delivery count that was known before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple


class RecordState(IntEnum):
    """States of a record (KIP-932)."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    """Failed for good, and to be written to the dead-letter topic."""
    ARCHIVED = 4


class AcknowledgeType(IntEnum):
    """Acknowledgements of a record by a member; the numbers are the protocol's."""

    GAP = 0
    """There is no such record: compacted away, or a marker."""
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4
    """Still being processed: extend its lock."""


class StateBatch(NamedTuple):
    """Neighbouring records with equal state and delivery count."""

    first_offset: int
    last_offset: int
    state: int
    delivery_count: int


def joined(batches: Iterable[StateBatch]) -> list[StateBatch]:
    """The same in as few as possible; they come in order."""
    found: list[StateBatch] = []
    for batch in batches:
        if found:
            last = found[-1]
            if last.last_offset + 1 == batch.first_offset and last[2:] == batch[2:]:
                found[-1] = last._replace(last_offset=batch.last_offset)
                continue
        found.append(batch)
    return found


def overlaid(below: Sequence[StateBatch], above: Sequence[StateBatch], start_offset: int) -> list[StateBatch]:
    """`below`, replaced by `above` where both have records; nothing before the start.

    Both are in order and without overlaps.
    """
    found: list[StateBatch] = []
    changes = iter(above)
    change = next(changes, None)
    for batch in below:
        first = batch.first_offset
        while change is not None and change.last_offset < first:
            found.append(change)
            change = next(changes, None)
        while change is not None and change.first_offset <= batch.last_offset:
            if first < change.first_offset:
                found.append(batch._replace(first_offset=first, last_offset=change.first_offset - 1))
            first = change.last_offset + 1
            if first > batch.last_offset:
                break
            found.append(change)
            change = next(changes, None)
        if first <= batch.last_offset:
            found.append(batch._replace(first_offset=first))
    if change is not None:
        found.append(change)
        found.extend(changes)
    return joined(since(found, start_offset))


def since(batches: Iterable[StateBatch], start_offset: int) -> Iterable[StateBatch]:
    """The parts of these at or behind an offset."""
    for batch in batches:
        if batch.last_offset >= start_offset:
            yield batch if batch.first_offset >= start_offset else batch._replace(first_offset=start_offset)
