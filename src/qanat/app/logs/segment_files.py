"""The `.log` files of a data directory, a partition's folder or a single segment."""

from __future__ import annotations

from pathlib import Path

from qanat.log.segments import file_names
from qanat.model.errors import StorageError


def segment_files(path: Path) -> list[Path]:
    if path.is_file():
        return [single_file(path)]
    found = sorted(path.glob("*.log")) or sorted(path.glob("*-*/*.log")) or sorted(path.glob("broker-*/*-*/*.log"))
    found = [file for file in found if file_names.offset_of(file.name, file_names.LOG) is not None]
    if not found:
        raise StorageError(
            f"there is no log in {path}: give a data directory such as data/broker-0, a partition's folder in it, "
            "or one .log file"
        )
    return found


def single_file(path: Path) -> Path:
    if not path.is_file():
        raise StorageError(f"{path} is not a file: give a segment such as data/broker-0/orders-0/{0:020d}.log")
    if file_names.offset_of(path.name, file_names.LOG) is None:
        raise StorageError(f"{path} is not a segment: its name should be 20 digits and end in .log")
    return path
