"""Record printer: filtered records on standard output, in a form, up to a number.

On a terminal, control characters are shown as escapes (`printable`); a file or a pipe gets the bytes unchanged.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

from qanat.app.records.json_envelope import encode_envelope
from qanat.app.records.record_filter import RecordFilter
from qanat.app.records.record_format import RecordFormat
from qanat.app.terminal.printable import printable_json
from qanat.connection.records.topic_reading import Reading
from qanat.wire.records import Record

Encode = Callable[[str, int, Record], bytes]


class RecordPrinter:
    """Prints records that pass the filter, until the number is reached."""

    def __init__(self, wanted: RecordFilter, encode: Encode, number: int | None) -> None:
        self._wanted = wanted
        self._encode = encode
        self._left = number

    @property
    def is_done(self) -> bool:
        return self._left == 0

    def print(self, reading: Reading, records: Iterable[tuple[int, Record]]) -> None:
        """Print wanted records; at the number, the reading's positions go back to the first unprinted record."""
        pieces: list[bytes] = []
        stopped: set[int] = set()
        for partition, record in records:
            if partition in stopped:
                continue
            if self._left == 0:
                # A record that is not printed counts as unread: the next member of the group begins here.
                reading.positions[partition] = record.offset
                stopped.add(partition)
            elif self._wanted.wants(partition, record):
                pieces.append(self._encode(reading.topic, partition, record))
                self._left = None if self._left is None else self._left - 1
        sys.stdout.buffer.write(b"".join(pieces))
        sys.stdout.buffer.flush()


def record_encoder(form: str, *, is_envelope: bool, is_raw: bool) -> Encode:
    """The function that encodes a record for output."""
    is_escaped = sys.stdout.isatty() and not is_raw
    if not is_envelope:
        return RecordFormat(form, is_escaped=is_escaped).encode

    def encode(topic: str, partition: int, record: Record) -> bytes:
        line = encode_envelope(topic, partition, record)
        return (printable_json(line) if is_escaped else line).encode() + b"\n"

    return encode
