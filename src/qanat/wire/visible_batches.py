"""Which batches of a log are for consumers: no markers, and nothing of an aborted transaction.

The push server and the way up of a tree read logs as they lie, and leave out what a `read_committed` consumer leaves
out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from qanat.wire.batch_header import HEADER_SIZE, BatchHeader, batch_size_at, read_header


class Aborted(Protocol):
    """An aborted transaction, as the log or another broker names it."""

    @property
    def producer_id(self) -> int: ...

    @property
    def first_offset(self) -> int: ...


def visible_batches(
    views: Sequence[memoryview], aborted: Sequence[Aborted]
) -> Iterator[tuple[memoryview, BatchHeader, bool]]:
    """Every whole batch, with its header and whether its records are for consumers."""
    beginnings: dict[int, list[int]] = {}
    for one in sorted(aborted, key=lambda one: one.first_offset):
        beginnings.setdefault(one.producer_id, []).append(one.first_offset)
    for view in views:
        position, length = 0, len(view)
        while position + HEADER_SIZE <= length:
            size = batch_size_at(view, position)
            if size < HEADER_SIZE or position + size > length:
                break
            batch = view[position : position + size]
            position += size
            header = read_header(batch)
            begun = beginnings.get(header.producer_id, []) if header.is_transactional else []
            is_aborted = bool(begun) and header.base_offset >= begun[0]
            if header.is_control and is_aborted:
                begun.pop(0)
            yield batch, header, not (header.is_control or is_aborted)
