"""Kafka's file names inside a partition's folder, and the few of our own."""

from __future__ import annotations

from collections.abc import Iterable

LOG = ".log"
OFFSET_INDEX = ".index"
TIME_INDEX = ".timeindex"
ABORTED_INDEX = ".txnindex"
SIDECAR = ".sidecar"
SNAPSHOT = ".snapshot"
CLEANED = ".cleaned"
"""A compacted segment being written; worthless after a crash."""
SWAP = ".swap"
"""A compacted segment that is complete: `<base>-<end>.swap` stands for all segments in that range."""
TRUNCATED = ".truncated"
"""A shortened copy being written; worthless after a crash."""

LEADER_EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"

_DIGITS = 20

COMPANION_SUFFIXES = (OFFSET_INDEX, TIME_INDEX, ABORTED_INDEX, SIDECAR)
"""The files of a segment besides its log."""


def segment_file(directory: str, base_offset: int, suffix: str) -> str:
    return f"{directory}/{base_offset:0{_DIGITS}d}{suffix}"


def swap_file(directory: str, base_offset: int, end_offset: int, suffix: str) -> str:
    return f"{directory}/{base_offset:0{_DIGITS}d}-{end_offset:0{_DIGITS}d}{suffix}"


def offset_of(name: str, suffix: str) -> int | None:
    """The offset in the name of a file of this kind; None for any other file."""
    stem = name.removesuffix(suffix)
    return int(stem) if name.endswith(suffix) and len(stem) == _DIGITS and stem.isdecimal() else None


def offsets_by_suffix(names: Iterable[str]) -> dict[str, list[int]]:
    """The offsets in the names of a folder, by the kind of file, in the names' order; other files are left out."""
    found: dict[str, list[int]] = {}
    for name in names:
        stem, suffix = name[:_DIGITS], name[_DIGITS:]
        if suffix.startswith(".") and len(stem) == _DIGITS and stem.isdecimal():
            found.setdefault(suffix, []).append(int(stem))
    return found


def range_of(name: str, suffix: str) -> tuple[int, int] | None:
    """The offsets that a swap file stands for: base, and end (exclusive)."""
    base, _, end = name.removesuffix(suffix).partition("-")
    if not name.endswith(suffix) or not (len(base) == len(end) == _DIGITS and base.isdecimal() and end.isdecimal()):
        return None
    return int(base), int(end)
