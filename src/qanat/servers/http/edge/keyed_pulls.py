"""Pulls of children that want some keys: batches are read on until records pass, and only those are sent.

A batch of which some records pass is written anew, with its extent, epoch and producer: every record keeps its offset,
and the checksum is another one. A batch of which none passes is left out, as compaction leaves it out; the last one of
an answer goes as its header alone, so that the child's position is the end of what was read. Markers of transactions
always pass, and so does what cannot be opened.

Rule 1: what was read before in the same request is not lost: where a later read ends in anything but batches, the
        child gets what there is, and asks again from there.
Rule 2: gaps of every read are in the answer: a child records all that lie in what it gets.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from qanat.broker.runtime.cooperative_yield import CooperativeYield
from qanat.edge.key_filter import common, passing
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.wire.batch_header import BatchHeader, Buffer, read_header, split_batches
from qanat.wire.filtering import read_keys, retain
from qanat.wire.pipe_answer import PipedPartition, PipePosition

Piece = tuple[PipedPartition, bytes]
Read = Callable[[Sequence[PipePosition], int, int], Awaitable[list[Piece]]]
"""Reads from positions on: how long it may wait in milliseconds, and how many bytes it may return."""

_READ_ON_S = 0.2
"""How long to read on for an answer of a useful size, once a record passes."""
_PAUSE_S = 0.05
"""Between reads that wait: what comes in one moment is read at once."""


async def pull_keyed(
    read: Read, positions: Sequence[PipePosition], wait_ms: int, max_bytes: int, limit_bytes: int
) -> list[Piece]:
    """The answer to a request of which some positions name keys."""
    pull = _KeyedPull(positions, max_bytes, limit_bytes)
    began = time.monotonic()
    deadline = began + wait_ms / 1000
    left_ms = wait_ms
    while True:
        pieces = await read(pull.positions, left_ms, max_bytes)
        await pull.take(pieces)
        now = time.monotonic()
        if pull.is_answer or now >= (min(deadline, began + _READ_ON_S) if pull.has_passed else deadline):
            return pull.answer()
        if pull.is_at_end:
            if pull.has_passed:
                return pull.answer()
            await asyncio.sleep(min(_PAUSE_S, deadline - now))
        left_ms = max(0, round((deadline - time.monotonic()) * 1000)) if pull.is_at_end else 0


@dataclass
class _Found:
    """What there is of one partition."""

    piece: PipedPartition
    batches: list[Buffer] = field(default_factory=list)
    skipped: Buffer = b""
    """The header of the last batch that was read, where it was left out."""


class _KeyedPull:
    def __init__(self, positions: Sequence[PipePosition], max_bytes: int, limit_bytes: int) -> None:
        self.positions = list(positions)
        self._enough_bytes = max_bytes // 2
        self._limit_bytes = limit_bytes
        self._found: list[_Found] = []
        self._size = 0
        self.is_answer = False
        """Whether the child should have the answer now, whatever else could be read."""
        self.is_at_end = False
        """Whether there is nothing more to read now."""

    @property
    def has_passed(self) -> bool:
        return self._size > 0

    async def take(self, pieces: list[Piece]) -> None:
        """What a read from `positions` has brought."""
        is_first = not self._found
        if is_first:
            self._found = [_Found(piece) for piece, _ in pieces]
        self.is_at_end = True
        for place, (piece, records) in enumerate(pieces):
            asked, found = self.positions[place], self._found[place]
            is_usual = not piece.error and piece.diverging is None and piece.log_start <= asked.offset
            if not is_usual:
                self.is_answer = True
                if not is_first:
                    continue  # Rule 1.
            if not asked.keys:
                found.piece = piece
                found.batches = [records] if records else []
                self.is_answer = self.is_answer or bool(records)
                continue
            await self._filter(found, replace(piece, gaps=_joined(found.piece.gaps, piece.gaps)), records, asked)
            if piece.next is not None:
                offset, epoch = piece.next
                self.positions[place] = replace(asked, offset=offset, epoch=epoch)
                self.is_at_end = self.is_at_end and offset >= piece.high_watermark
        self.is_answer = self.is_answer or self._size >= self._enough_bytes

    async def _filter(self, found: _Found, piece: PipedPartition, records: bytes, asked: PipePosition) -> None:
        passed = common(piece.keys, asked.keys)
        if passed is None:
            error = ErrorCode.INVALID_REQUEST.name
            found.piece, self.is_answer = PipedPartition(piece.topic, piece.partition, error, keys=piece.keys), True
            return
        found.piece = replace(piece, keys=passed)
        does_pass, begin = passing(asked.keys), max(asked.offset, piece.log_start)
        async for batch in CooperativeYield().over(split_batches(records)):
            kept = _passed(batch, does_pass, self._limit_bytes)
            header = read_header(batch)
            if kept is None and header.base_offset < begin:
                # It lies across the child's end, or the log's start: what it shows of both, its header shows as well.
                kept = _header_alone(header, batch, self._limit_bytes)
            if kept is None:
                found.skipped = batch
            else:
                found.batches.append(kept)
                found.skipped = b""
                self._size += len(kept)

    def answer(self) -> list[Piece]:
        """The pieces, in the order of the request."""
        return [self._piece(found) for found in self._found]

    def _piece(self, found: _Found) -> Piece:
        batches = found.batches
        if found.skipped:
            header = read_header(found.skipped)
            batches = [*batches, _header_alone(header, found.skipped, self._limit_bytes)]
        if not batches:
            return replace(found.piece, size=0, next=None), b""
        last = read_header(batches[-1]) if found.piece.keys else None
        records = b"".join(batches)
        following = found.piece.next if last is None else (last.next_offset, last.leader_epoch)
        return replace(found.piece, size=len(records), next=following), records


def _passed(batch: memoryview, does_pass: Callable[[bytes | None], bool], limit_bytes: int) -> Buffer | None:
    """A batch with the records that pass; None where none does."""
    header = read_header(batch)
    if header.is_control:
        return batch
    try:
        keep = [does_pass(record.key) for record in read_keys(batch, limit_bytes)]
        if all(keep) and keep:
            return batch
        return retain(batch, keep, limit_bytes) if any(keep) else None
    except QanatError:
        return batch


def _header_alone(header: BatchHeader, batch: Buffer, limit_bytes: int) -> Buffer:
    return retain(batch, [False] * header.record_count, limit_bytes) if header.record_count else batch


def _joined(before: tuple[tuple[int, int], ...], now: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    return tuple(sorted(dict.fromkeys((*before, *now))))
