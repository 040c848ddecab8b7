"""Very many lines at once, written as columns: lines with a value, perhaps a key, and nothing else.

Nearly every stream of lines is like that. Line by line, Python would take longer than the log; here everything but the
decoding is done for whole columns (`wire.columns`), a piece of the body at a time. Other lines (with headers,
tombstones, partitions, other topics) and refused batches take the ordinary path.
"""

from __future__ import annotations

import asyncio
from array import array
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw

from qanat.api.records.append import ALL, NONE, append
from qanat.broker.replicas.partition import Partition, Written
from qanat.model.errors import QanatError
from qanat.servers.http.problems import Problem
from qanat.servers.http.records.forwarding import NOT_KNOWN
from qanat.servers.http.records.produce_results import ProducedOrNot
from qanat.servers.http.records.record_parsing import ProducerRecord, now_ms, pieces_of
from qanat.wire.column_layout import BinaryColumn, Columns
from qanat.wire.columns import encode_columns
from qanat.wire.key_hash import place_rows

if TYPE_CHECKING:
    from qanat.servers.http.caller import HttpCaller
    from qanat.servers.http.records.record_routing import RecordRouter

_NULL = b"null"


class PlainLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A line with nothing but a value and a key."""

    value: Raw
    key: str | None = None


Piece = tuple[list[str | None], list[bytes]]
"""Keys and values."""
_DECODER = msgspec.json.Decoder(PlainLine)
_KEY, _VALUE = attrgetter("key"), attrgetter("value")


async def read_columns(body: bytes) -> list[Piece] | None:
    """The body as columns; None where it has other lines, or faults."""
    pieces: list[Piece] = []
    for piece in pieces_of(body):
        try:
            lines = _DECODER.decode_lines(piece)
        except (msgspec.DecodeError, RecursionError):
            return None
        keys, values = list(map(_KEY, lines)), list(map(bytes, map(_VALUE, lines)))
        has_some = 0 < keys.count(None) < len(keys)
        if has_some or _NULL in values:
            return None
        if lines:
            pieces.append((keys, values))
        await asyncio.sleep(0)
    return pieces


class ColumnarWriter:
    """Writes the pieces of one request to one topic, also where other brokers lead its partitions."""

    def __init__(self, router: RecordRouter, caller: HttpCaller, topic: str, partitions: int, acks: int) -> None:
        self._router = router
        self._caller = caller
        self._topic = topic
        self._partitions = partitions
        self._acks = acks
        self._now = now_ms()
        self._unacknowledged: list[tuple[list[int], Written]] = []
        """Appended batches, and the places of their records in the answer."""
        self.results: list[ProducedOrNot] = []
        self.failed = 0

    async def write(self, piece: Piece) -> None:
        """Append one piece; `finish` awaits its acknowledgement."""
        keys, values = piece
        count, first = len(values), len(self.results)
        encoded_keys = None if keys[0] is None else [key.encode() for key in keys if key is not None]
        targets = self._targets(encoded_keys, count)
        order = sorted(range(count), key=targets.__getitem__)
        if count > 1:
            pick = itemgetter(*order)
            values = list(pick(values))
            encoded_keys = None if encoded_keys is None else list(pick(encoded_keys))
        offsets = [0] * count
        self.results += map(ProducedOrNot, targets, offsets)
        columns = _columns(encoded_keys, values, self._now)
        start = 0
        for number, rows in sorted(Counter(targets).items()):
            await self._write_rows(
                number, columns, start, start + rows, [first + place for place in order[start : start + rows]]
            )
            start += rows

    def _targets(self, keys: Sequence[bytes] | None, count: int) -> Sequence[int]:
        if keys is None:
            turn = self._router.next_turns(self._topic, count)
            return [(turn + row) % self._partitions for row in range(count)]
        targets = array("i", bytes(4 * count))
        offsets, data = _laid_out(keys)
        place_rows(offsets, data, self._partitions, targets)
        return targets.tolist()

    async def _write_rows(self, number: int, columns: Columns, start: int, end: int, places: list[int]) -> None:
        partition = self._router.find_led(self._caller, self._topic, number, self._acks, is_bulk=True)
        done = 0
        for batch, count in encode_columns(columns, batch_bytes=512 * 1024, first_row=start, end_row=end):
            chosen = places[done : done + count]
            written = None if partition is None else await _appended(partition, batch)
            if written is None:
                await self._write_ordinary(number, columns, start + done, chosen)
            else:
                self._set_offsets(written.base_offset, chosen)
                if written.durable is not None and self._acks == ALL:
                    self._unacknowledged.append((chosen, written))
            done += count

    def _set_offsets(self, base_offset: int, places: list[int]) -> None:
        results = self.results
        for offset, place in enumerate(places, base_offset):
            results[place].offset = offset

    async def _write_ordinary(self, number: int, columns: Columns, first: int, places: list[int]) -> None:
        """Write rows that cannot be appended directly, with a result or a problem for each."""
        records = [
            ProducerRecord(self._topic, _cell(columns.keys, row), _cell(columns.values, row), (), self._now, number)
            for row in range(first, first + len(places))
        ]
        for place, result in zip(places, await self._router.write(self._caller, records, self._acks), strict=True):
            if isinstance(result, Problem):
                self._fail(place, result)
            else:
                self.results[place].offset = result

    def _fail(self, place: int, problem: Problem) -> None:
        self.failed += 1
        self.results[place] = ProducedOrNot(problem=problem.document())

    async def finish(self) -> None:
        """Wait until everything is durable."""
        await self._router.acknowledged(
            self._unacknowledged,
            lambda place, fault: self._fail(place, Problem(503, f"topic {self._topic}: {fault}; {NOT_KNOWN}")),
        )
        if self._acks == NONE:
            for result in self.results:
                result.offset = None


async def _appended(partition: Partition, batch: bytearray) -> Written | None:
    try:
        return await append(partition, batch)
    except QanatError:
        return None


def _laid_out(cells: Sequence[bytes]) -> tuple[array[int], bytes]:
    return array("i", accumulate(map(len, cells), initial=0)), b"".join(cells)


def _columns(keys: Sequence[bytes] | None, values: Sequence[bytes], timestamp: int) -> Columns:
    count = len(values)
    none = array("i", bytes(4 * (count + 1)))
    empty = BinaryColumn(None, array("i", [0]), b"")
    absent = BinaryColumn(bytes((count + 7) // 8), none, b"", count)
    timestamps = array("q", [timestamp]) * count
    key_column = absent if keys is None else BinaryColumn(None, *_laid_out(keys))
    return Columns(timestamps, timestamps, key_column, BinaryColumn(None, *_laid_out(values)), none, empty, empty)


def _cell(column: BinaryColumn, row: int) -> bytes | None:
    return None if column.null_count else bytes(column.data[column.offsets[row] : column.offsets[row + 1]])
