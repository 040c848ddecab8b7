"""Partitions' folders: their names, how they go, and how it is noticed that somebody else has removed one.

A checkpoint speaks of every partition that there is. One that it speaks of, and that has no folder, was
removed by hand or lost by the file system, unless it was deleted here and the checkpoint is older than
that. So a deleted partition leaves its folder behind, renamed and empty, until the next checkpoint
has forgotten it (`begin_checkpoint`): there is no moment at which the two look alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from qanat.log.directories.catalogue import PartitionRow
from qanat.log.files import Files
from qanat.log.recovery.log_recovery import Checkpoint
from qanat.log.segments.segment import Segment
from qanat.model.errors import StorageError
from qanat.model.ids import TopicPartition

DOOMED = "-delete"
"""Ending of a partition's folder that is being removed; Kafka's spelling."""
STRAY = "-stray"
"""Ending of a partition's folder that nobody knows and nobody dares to remove; Kafka's spelling."""


class LostLogError(StorageError):
    """A log whose folder is gone. Where another replica leads, it can be made anew."""


class LostLog(NamedTuple):
    """A log that was there when the directory was last written to, and whose folder is gone."""

    topic_id: str
    """Empty where that is not known."""
    end_offset: int

    def error(self, at: TopicPartition, folder: str) -> StorageError:
        return LostLogError(
            f"{folder} is gone, and with it the records of {at} up to offset {self.end_offset} (exclusive): "
            "put the folder back from a backup, or make an empty one in its place to go on without them; "
            "then restart the broker"
        )


def lost_logs(
    rows: Mapping[TopicPartition, PartitionRow],
    hints: Mapping[TopicPartition, Checkpoint],
    accounted: Iterable[TopicPartition],
) -> dict[TopicPartition, LostLog]:
    """Logs that the catalogue or the checkpoints speak of, and that have no folder.

    One that was empty when a checkpoint was written may have had records since; one that was empty at a clean stop had
    none, and is no loss.
    """
    ends = {at: LostLog("", max(hint.recovery_point, hint.log_start_offset)) for at, hint in hints.items()}
    for at, row in rows.items():
        ends[at] = LostLog(row.topic_id, row.segments[-1].sidecar.next_offset)
    known = dict.fromkeys(accounted)
    return {at: lost for at, lost in ends.items() if at not in known and (lost.end_offset > 0 or at not in rows)}


def parse_folder(name: str) -> TopicPartition | None:
    """The partition that a folder is named after; topics may contain dashes and dots."""
    topic, _, partition = name.rpartition("-")
    is_number = partition.isascii() and partition.isdecimal() and str(int(partition)) == partition
    return TopicPartition(topic, int(partition)) if topic and is_number else None


def partitions_gone(names: Iterable[str], ending: str) -> Iterator[tuple[TopicPartition, str]]:
    """Partitions that were deleted (`DOOMED`) or set aside (`STRAY`), with what is left of their folders."""
    for name in names:
        at = parse_folder(name.removesuffix(ending).rpartition(".")[0]) if name.endswith(ending) else None
        if at is not None:
            yield at, name


def empty_folder(files: Files, path: str) -> None:
    for name in files.list(path):
        files.remove(f"{path}/{name}")


def remove_empty(files: Files, paths: Iterable[str]) -> None:
    """Remove folders that have nothing left to tell; one that cannot be removed is in nobody's way."""
    for path in paths:
        with suppress(StorageError):
            files.remove_directory(path)


class DeleteLogJob:
    """Removes a partition's log: its folder is renamed first, so that a crash cannot leave half a log under its name.

    The empty folder is handed to `bury`.
    """

    def __init__(
        self, files: Files, folder: str, doomed: str, segments: Sequence[Segment], bury: Callable[[str], None]
    ) -> None:
        self._files = files
        self._folder = folder
        self._doomed = doomed
        self._segments = segments
        self._bury = bury

    def run(self) -> None:
        if self._files.exists(self._folder):
            self._files.rename(self._folder, self._doomed)
        else:
            self._files.make_directory(self._doomed)  # Somebody has removed it: what is left is to say so.
        self._files.sync_directory(self._doomed.rpartition("/")[0])
        empty_folder(self._files, self._doomed)

    def finish(self) -> None:
        for segment in self._segments:
            segment.close()
        self._bury(self._doomed)


class SetAsideJob:
    """Renames a partition's folder, so that nobody takes it for a log any more."""

    def __init__(self, files: Files, folder: str, aside: str, segments: Sequence[Segment]) -> None:
        self._files = files
        self._folder = folder
        self.aside = aside
        self._segments = segments

    def run(self) -> None:
        self._files.rename(self._folder, self.aside)
        self._files.sync_directory(self.aside.rpartition("/")[0])

    def finish(self) -> None:
        for segment in self._segments:
            segment.close()
