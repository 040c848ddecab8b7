"""Damage to a broker's data directory: a flipped bit, a lost folder, an older image.

It is done while no process uses the directory, is drawn from a `Random`, and returns a sentence for the report.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from shutil import rmtree

from qanat.app.logs.stored_segments import batches_of
from qanat.log.directories.partition_folders import parse_folder
from qanat.log.segments import file_names


@dataclass(frozen=True, slots=True)
class Flip:
    """A flipped bit."""

    path: Path
    bit: int
    base_offset: int | None
    """The base offset of its batch; None where the bit is in no batch."""

    def __str__(self) -> str:
        batch = "behind the last batch" if self.base_offset is None else f"batch at offset {self.base_offset}"
        return f"bit {self.bit % 8} of byte {self.bit // 8} of {_name(self.path)}, {batch}"


def flip_bit(data: Path, random: Random) -> Flip:
    """Flip one bit of one segment of a partition that has records."""
    logs = [[path for path in folder.glob("*.log") if path.stat().st_size] for folder in partition_folders(data)]
    held = [sorted(segments) for segments in logs if segments]
    path = random.choice(random.choice(held))
    content = bytearray(path.read_bytes())
    bit = random.randrange(8 * len(content))
    flip = Flip(path, bit, _batch_around(path, bit // 8))
    with path.open("r+b") as file:
        file.seek(bit // 8)
        file.write(bytes([content[bit // 8] ^ 1 << bit % 8]))
    return flip


def is_repaired(flip: Flip, peers: Sequence[Path]) -> bool:
    """Whether the batch equals that of a peer. `peers` are the data directories of the other brokers."""
    if flip.base_offset is None:
        return True
    folder = flip.path.parent
    here = batch_at(folder, flip.base_offset)
    return any(here == batch_at(peer / folder.name, flip.base_offset) for peer in peers)


def batch_at(folder: Path, base_offset: int) -> bytes | None:
    """The bytes of the batch at a base offset in a partition's folder; None where there is none."""
    bases = {file_names.offset_of(path.name, file_names.LOG): path for path in folder.glob("*.log")}
    below = [base for base in bases if base is not None and base <= base_offset]
    if not below:
        return None
    found = (bytes(batch) for _, header, batch in batches_of(bases[max(below)]) if header.base_offset == base_offset)
    return next(found, None)


def remove_partition(data: Path, random: Random) -> str:
    """Remove the folder of one partition."""
    folder = random.choice(partition_folders(data))
    rmtree(folder)
    return f"the folder of {folder.name} is gone"


class OldImage:
    """A copy of a data directory. `take` it while its process is stopped: a disk may be in that state."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._image = data.parent.parent / f"{data.name}.image"

    def take(self) -> None:
        self.remove()
        subprocess.run(["cp", "-a", str(self._data), str(self._image)], check=True)

    def put_back(self) -> str:
        rmtree(self._data)
        self._image.rename(self._data)
        return "put back to an older image"

    def remove(self) -> None:
        rmtree(self._image, ignore_errors=True)


def partition_folders(data: Path) -> list[Path]:
    """The folders of partitions, by name."""
    return sorted(path for path in data.iterdir() if path.is_dir() and parse_folder(path.name) is not None)


def _batch_around(path: Path, position: int) -> int | None:
    for start, header, _ in batches_of(path):
        if start <= position < start + header.size:
            return header.base_offset
    return None


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"
