"""Comparison of all replicas of a partition on the brokers' disks, byte by byte."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Sequence
from pathlib import Path

from qanat.app.logs.stored_segments import batches_of
from qanat.model.errors import StorageError

_LOOK_S = 0.5


async def await_same_copies(folders: Sequence[Path], topics: dict[str, int], seconds: float) -> list[str]:
    """Wait until all replicas are the same; returns what differs at the end."""
    missing = [(topic, number) for topic, count in topics.items() for number in range(count)]
    deadline = time.monotonic() + seconds
    while True:
        looks = {place: await asyncio.to_thread(_look, folders, *place) for place in missing}
        missing = [place for place, copies in looks.items() if len(set(copies)) > 1]
        if not missing or time.monotonic() > deadline:
            return [f"replicas differ: {topic}-{number} is {looks[topic, number]}" for topic, number in missing]
        await asyncio.sleep(_LOOK_S)


def _look(folders: Sequence[Path], topic: str, number: int) -> list[str]:
    return [_copy(folder / f"{topic}-{number}") for folder in folders]


def _copy(folder: Path) -> str:
    """The end offset of a replica, and a digest of its batches; unlike any other while its broker repairs it."""
    digest, end = hashlib.blake2b(digest_size=8), 0
    try:
        for path in sorted(folder.glob("*.log")):
            for _, header, batch in batches_of(path):
                digest.update(batch)
                end = header.next_offset
    except StorageError as removed:
        return f"{folder}: {removed}"
    return f"{end}/{digest.hexdigest()}"
