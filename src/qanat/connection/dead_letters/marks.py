"""Marks: which letters of a partition were redriven, as one committed offset and a note. Pure.

The offset is where the first letter may be that was not redriven; the note has the redriven ones behind it. So letters
that a selection passed over stay for the next redrive, and no letter is redriven twice, whatever the selections.

The note is a list of runs (offsets passed over, offsets redriven), deflated. A broker stores a note of 4,096 bytes
(`offset.metadata.max.bytes`): a mark that would be longer cannot be made, and `note` says so.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from bisect import bisect_right
from collections.abc import Iterator

from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError

NOTE_BYTES_MAX = 4096
_PREFIX = "redrive1:"
_INFLATED_MAX = 1024 * 1024


class MarkTooLongError(QanatError):
    """Redriven and passed-over letters alternate too often for a note."""

    code = ErrorCode.OFFSET_METADATA_TOO_LARGE


class UnreadableMarkError(QanatError):
    """The group's note was not written by a redrive."""

    code = ErrorCode.INVALID_REQUEST


class Mark:
    """The redriven offsets of one partition: everything before `first_offset`, and the runs behind it."""

    __slots__ = ("_runs", "first_offset")

    def __init__(self, first_offset: int = 0, runs: list[tuple[int, int]] | None = None) -> None:
        self.first_offset = first_offset
        self._runs: list[tuple[int, int]] = runs or []
        """First and end offsets, in order, with gaps between."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mark) and (self.first_offset, self._runs) == (other.first_offset, other._runs)

    def __hash__(self) -> int:
        raise TypeError("a mark changes")

    def __repr__(self) -> str:
        return f"Mark({self.first_offset}, {self._runs})"

    def copy(self) -> Mark:
        return Mark(self.first_offset, list(self._runs))

    def covers(self, offset: int) -> bool:
        """Whether the letter at this offset was redriven."""
        if offset < self.first_offset:
            return True
        at = bisect_right(self._runs, (offset, 2**63)) - 1
        return at >= 0 and offset < self._runs[at][1]

    def add(self, first_offset: int, end_offset: int) -> None:
        """Cover these offsets as well."""
        if end_offset <= max(first_offset, self.first_offset):
            return
        if self._runs and first_offset >= self._runs[-1][1]:  # Nearly always: letters are read in order.
            last_first, last_end = self._runs[-1]
            if first_offset == last_end:
                self._runs[-1] = last_first, end_offset
            else:
                self._runs.append((first_offset, end_offset))
            return
        kept: list[tuple[int, int]] = []
        for first, end in self._runs:
            if end < first_offset or first > end_offset:
                kept.append((first, end))
            else:
                first_offset, end_offset = min(first, first_offset), max(end, end_offset)
        kept.append((first_offset, end_offset))
        kept.sort()
        self._runs = kept
        self._advance()

    def begin_at(self, offset: int) -> None:
        """Forget everything before the log's start."""
        if offset > self.first_offset:
            self.first_offset = offset
            self._runs = [(max(first, offset), end) for first, end in self._runs if end > offset]
            self._advance()

    def _advance(self) -> None:
        while self._runs and self._runs[0][0] <= self.first_offset:
            self.first_offset = max(self.first_offset, self._runs.pop(0)[1])

    def note(self) -> str:
        """The runs as text, empty where there are none; raises `MarkTooLongError`."""
        if not self._runs:
            return ""
        numbers: list[bytes] = []
        at = self.first_offset
        for first, end in self._runs:
            numbers += [_varint(first - at), _varint(end - first)]
            at = end
        text = _PREFIX + base64.b85encode(zlib.compress(b"".join(numbers), 9)).decode()
        if len(text) > NOTE_BYTES_MAX:
            raise MarkTooLongError(
                f"{len(self._runs):,} runs of redriven letters have others between them, more than a mark can hold"
            )
        return text

    @staticmethod
    def read(offset: int, note: str) -> Mark:
        """The mark that was committed so; raises `UnreadableMarkError`."""
        if not note:
            return Mark(offset)
        try:
            if not note.startswith(_PREFIX):
                raise ValueError
            inflating = zlib.decompressobj()
            content = inflating.decompress(base64.b85decode(note[len(_PREFIX) :]), _INFLATED_MAX)
            if not inflating.eof:
                raise ValueError
            numbers = list(_varints(content))
            runs, at = [], offset
            for gap, length in zip(numbers[::2], numbers[1::2], strict=True):
                runs.append((at + gap, at + gap + length))
                at += gap + length
        except (ValueError, binascii.Error, zlib.error):
            raise UnreadableMarkError(f"the committed note {note[:40]!r} is none of a redrive") from None
        return Mark(offset, runs)


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def _varints(content: bytes) -> Iterator[int]:
    number = shift = 0
    for byte in content:
        number |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            yield number
            number = shift = 0
    if shift:
        raise ValueError
