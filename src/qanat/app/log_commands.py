"""`qanat log`: look into data directories as they lie on disk.

These commands read only. They take no lock and recover nothing, so they can be
used beside a running broker (whose newest records they may not see) and on a
directory that somebody suspects.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from qanat.adapters.os_files import OsFiles
from qanat.app.listing import Output, Row, print_rows
from qanat.log import names
from qanat.log.scan import Damage, find_damage, read_batches
from qanat.log.sidecar import Sidecar, decode_sidecar
from qanat.model.errors import QanatError, StorageError
from qanat.wire.batch_header import BatchHeader
from qanat.wire.compression import Codec
from qanat.wire.records import decode_records

_DECODED_BYTES_MAX = 64 * 1024 * 1024
_SEGMENT_COLUMNS = ("partition", "base_offset", "next_offset", "records", "batches", "bytes", "sealed", "state")
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


def verify(path: Path, *, output: Output = "table") -> int:
    """Read every byte of a data directory, a partition's folder or one `.log` file and compare checksums.

    Exits with 1 if anything is damaged.

    Parameters
    ----------
    path:
        A data directory (`data/broker-0`), a partition's folder (`data/broker-0/orders-0`) or a segment.
    output:
        `table` for people; `json`, `jsonl`, `csv` for programs.
    """
    rows = [_verified(file) for file in _segment_files(path)]
    print_rows(rows, _SEGMENT_COLUMNS, output)
    return 1 if any(row["state"] not in ("sound", "open tail") for row in rows) else 0


def dump(path: Path, *, records: bool = False, limit: int | None = None, output: Output = "table") -> None:
    """Show the batches, or with --records the records, of one segment file.

    Parameters
    ----------
    path:
        A `.log` file.
    records:
        Open the batches and show what is inside.
    limit:
        Stop after this many rows.
    output:
        `table` for people; `json`, `jsonl`, `csv` for programs.
    """
    file = _single_file(path)
    rows = _record_rows(file) if records else _batch_rows(file)
    shown = (row for _, row in zip(range(limit), rows, strict=False)) if limit is not None else rows
    print_rows(shown, _RECORD_COLUMNS if records else _BATCH_COLUMNS, output)


def _segment_files(path: Path) -> list[Path]:
    if path.is_file():
        return [_single_file(path)]
    found = sorted(path.glob("*.log")) or sorted(path.glob("*-*/*.log"))
    found = [file for file in found if names.offset_of(file.name, names.LOG) is not None]
    if not found:
        raise StorageError(
            f"there is no log in {path}: give a data directory such as data/broker-0, a partition's folder in it, "
            "or one .log file"
        )
    return found


def _single_file(path: Path) -> Path:
    if not path.is_file():
        raise StorageError(f"{path} is no file: give a segment such as data/broker-0/orders-0/{0:020d}.log")
    if names.offset_of(path.name, names.LOG) is None:
        raise StorageError(f"{path} is no segment: its name should be 20 digits and end in .log")
    return path


def _batches(path: Path) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    file = OsFiles().open(str(path))
    return read_batches(file, 0, file.size(), names.offset_of(path.name, names.LOG) or 0)


def _verified(path: Path) -> Row:
    """One segment's row. An unsealed segment may end in a batch that is being written: that is no damage."""
    base_offset = names.offset_of(path.name, names.LOG) or 0
    file = OsFiles().open(str(path))
    records = batches = position = 0
    next_offset = base_offset
    for position, header, _ in read_batches(file, 0, file.size(), base_offset):
        position += header.size
        records, batches, next_offset = records + header.record_count, batches + 1, header.next_offset
    sidecar = _sidecar(path)
    size = file.size()
    damage = list(find_damage(file, position, size, next_offset, next_offset)) if position < size else []
    if sidecar is not None and sidecar.size != size:
        damage.append(
            Damage(size, size, next_offset, sidecar.next_offset, f"{sidecar.size} bytes were sealed, {size} are there")
        )
    return {
        "partition": path.parent.name,
        "base_offset": base_offset,
        "next_offset": next_offset,
        "records": records,
        "batches": batches,
        "bytes": size,
        "sealed": sidecar is not None,
        "state": _state(damage, is_sealed=sidecar is not None),
    }


def _state(damage: list[Damage], *, is_sealed: bool) -> str:
    if not damage:
        return "sound"
    if not is_sealed and len(damage) == 1:
        return "open tail"
    first = damage[0]
    return f"damaged at byte {first.start}: {first.reason}"


def _sidecar(path: Path) -> Sidecar | None:
    beside = path.with_suffix(names.SIDECAR)
    return decode_sidecar(beside.read_bytes(), str(beside)) if beside.exists() else None


def _batch_rows(path: Path) -> Iterator[Row]:
    for position, header, _ in _batches(path):
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
    for _, header, batch in _batches(path):
        try:
            for record in decode_records(batch, _DECODED_BYTES_MAX):
                yield {
                    "offset": record.offset,
                    "timestamp": record.timestamp,
                    "key": _text(record.key),
                    "value": _text(record.value),
                    "headers": " ".join(f"{key}={_text(value)}" for key, value in record.headers),
                }
        except QanatError as fault:
            raise StorageError(f"{path}: the batch at offset {header.base_offset} cannot be opened: {fault}") from fault


def _text(content: bytes | None) -> str | None:
    """Text where it is text; bytes that are not are shown escaped, so that nothing reaches the terminal raw."""
    if content is None:
        return None
    text = content.decode("utf-8", errors="backslashreplace")
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")
