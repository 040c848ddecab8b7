"""A data directory of many partitions after a clean shutdown, for measurements of opening and memory.

One partition is written and closed by the log itself; the others are links to its files, with rows of their own in the
catalogue. Writing each would sync some twenty times, which takes minutes on a slow disk and measures nothing.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import msgspec

from qanat.adapters.sqlite_catalogue import SqliteCatalogue
from qanat.app.bench.log_figures.append import PARTITION, TOPIC_ID, append_all
from qanat.app.bench.log_figures.batches import batch_of
from qanat.app.bench.log_figures.plan import KIB
from qanat.app.node.compose import open_log_directory
from qanat.log.settings import NEVER_MS, LogSettings
from qanat.model.ids import TopicPartition

SMALL_SEGMENTS = LogSettings(flush_messages=NEVER_MS, segment_bytes=16 * KIB)
SEGMENTS = 4
_BATCHES_PER_SEGMENT = 4
_MARKER = ".kafka_cleanshutdown"


class Prepared:
    """The directory, and its marker of a clean shutdown."""

    def __init__(self, folder: Path) -> None:
        self._marker = folder / _MARKER
        self._generation = self._marker.read_bytes()

    def restore(self) -> None:
        """Restore the marker of a clean shutdown, which opening removes; nothing else has changed."""
        self._marker.write_bytes(self._generation)


def prepare(folder: Path, partitions: int, segments: int) -> Prepared:
    """A directory of so many partitions with so many segments each, all but the last one sealed."""
    directory = open_log_directory(str(folder), topic_settings=lambda topic: SMALL_SEGMENTS)
    try:
        log = directory.create(PARTITION, TOPIC_ID, SMALL_SEGMENTS)
        batch, _ = batch_of(SMALL_SEGMENTS.segment_bytes // _BATCHES_PER_SEGMENT)
        append_all(log, batch, (segments - 1) * _BATCHES_PER_SEGMENT + 1)
        assert len(log.segments) == segments, "as many segments as were asked for"
    finally:
        directory.close()
    _multiply(folder, partitions)
    return Prepared(folder)


def _multiply(folder: Path, partitions: int) -> None:
    """Link the first partition's files under the other numbers and enter each into the catalogue."""
    generation = (folder / _MARKER).read_text().split("\n", 1)[0]
    catalogue = SqliteCatalogue(f"{folder}/catalogue.db")
    (first,) = catalogue.load(generation)
    others = [TopicPartition(PARTITION.topic, number) for number in range(1, partitions)]
    for at in others:
        # Links instead of copies: the bytes are only read, and opening looks at names and sizes.
        shutil.copytree(folder / str(PARTITION), folder / str(at), copy_function=os.link)
    copies = (msgspec.structs.replace(first, topic_partition=at) for at in others)
    catalogue.save(generation, [first, *copies])
