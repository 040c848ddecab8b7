"""`qanat log dump`: the batches or records of one segment file.

It only reads: it takes no lock and recovers nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from qanat.app.logs.segment_files import single_file
from qanat.app.logs.stored_segments import batches_of, read_segment
from qanat.app.terminal.listing import Output, Row, print_rows
from qanat.model.errors import InvalidSettingError, QanatError, StorageError
from qanat.wire.compression import Codec
from qanat.wire.records import decode_records

_DECODED_BYTES_MAX = 64 * 1024 * 1024
_BATCH_COLUMNS = (
    "position",
    "base_offset",
    "last_offset",
    "records",
    "bytes",
    "codec",
    "leader_epoch",
    "producer",
    "kind",
)
_RECORD_COLUMNS = ("offset", "timestamp", "key", "value", "headers")


def dump(path: Path, *, records: bool = False, limit: int | None = None, output: Output = "table") -> int:
    """Show the batches, or with --records the records, of one segment file.

        qanat log dump data/broker-0/orders-0/00000000000000000000.log --records --limit 10

    Parameters
    ----------
    path:
        A `.log` file.
    records:
        Decode the batches and show their records.
    limit:
        Stop after this many rows.
    output:
        `table` for people, the others for programs.
    """
    file = single_file(path)
    if limit is not None and limit < 1:
        raise InvalidSettingError(f"--limit {limit}: give a number of rows, at least 1")
    rows = _record_rows(file) if records else _batch_rows(file)
    shown = (row for _, row in zip(range(limit), rows, strict=False)) if limit is not None else rows
    print_rows(shown, _RECORD_COLUMNS if records else _BATCH_COLUMNS, output)
    segment = read_segment(file)
    if not segment.damage:
        return 0
    print(f"qanat: {file}: {segment.state}; nothing from there on is shown", file=sys.stderr)
    return 1


def _batch_rows(path: Path) -> Iterator[Row]:
    for position, header, _ in batches_of(path):
        kinds = [
            name
            for name, holds in (("control", header.is_control), ("transactional", header.is_transactional))
            if holds
        ]
        yield {
            "position": position,
            "base_offset": header.base_offset,
            "last_offset": header.last_offset,
            "records": header.record_count,
            "bytes": header.size,
            "codec": Codec(header.codec).name.lower(),
            "leader_epoch": header.leader_epoch,
            "producer": None if header.producer_id < 0 else f"{header.producer_id}/{header.producer_epoch}",
            "kind": " ".join(kinds) or "data",
        }


def _record_rows(path: Path) -> Iterator[Row]:
    for _, header, batch in batches_of(path):
        try:
            for record in decode_records(batch, _DECODED_BYTES_MAX):
                yield {
                    "offset": record.offset,
                    "timestamp": record.timestamp,
                    "key": _text(record.key),
                    "value": _text(record.value),
                    "headers": " ".join(f"{_text(key.encode())}={_text(value)}" for key, value in record.headers),
                }
        except QanatError as fault:
            raise StorageError(f"{path}: the batch at offset {header.base_offset} cannot be opened: {fault}") from fault


def _text(content: bytes | None) -> str | None:
    """Text as it is; other bytes escaped, so that nothing reaches the terminal raw."""
    if content is None:
        return None
    text = content.decode("utf-8", errors="backslashreplace")
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")
