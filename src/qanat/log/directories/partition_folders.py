"""Partition folders: their names, their deletion, and noticing folders that were removed from outside.

The checkpoints list every partition. A listed one without a folder was
removed by hand or lost by the file system, unless it was deleted here and the checkpoint is older than
that. So a deleted partition leaves its folder behind, renamed and empty, until the next checkpoint
no longer lists it (`begin_checkpoint`): the two cases never look alike.
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

DELETED = "-delete"
"""Suffix of a partition's folder that is being removed; Kafka's spelling."""
STRAY = "-stray"
"""Suffix of a partition's folder that no topic claims and that is not removed; Kafka's spelling."""


class LostLogError(StorageError):
    """A log whose folder is missing. Where another replica leads, it can be made anew."""


class LostLog(NamedTuple):
    """A log that existed when the directory was last written to, and whose folder is missing."""

    topic_id: str
    """Empty where it is not known."""
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
    """Logs that the catalogue or the checkpoints list, and that have no folder.

    One that was empty in a checkpoint may have got records since; one that was empty at a clean shutdown had
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


def removed_partitions(names: Iterable[str], ending: str) -> Iterator[tuple[TopicPartition, str]]:
    """Partitions that were deleted (`DELETED`) or set aside (`STRAY`), with the names of their folders."""
    for name in names:
        at = parse_folder(name.removesuffix(ending).rpartition(".")[0]) if name.endswith(ending) else None
        if at is not None:
            yield at, name


def empty_folder(files: Files, path: str) -> None:
    for name in files.list(path):
        files.remove(f"{path}/{name}")


def remove_empty(files: Files, paths: Iterable[str]) -> None:
    """Remove folders that no checkpoint needs any more; one that cannot be removed does no harm."""
    for path in paths:
        with suppress(StorageError):
            files.remove_directory(path)


class DeleteLogJob:
    """Removes a partition's log: its folder is renamed first, so that a crash cannot leave half a log under its name.

    The empty folder is passed to `on_deleted`.
    """

    def __init__(
        self, files: Files, folder: str, deleted: str, segments: Sequence[Segment], on_deleted: Callable[[str], None]
    ) -> None:
        self._files = files
        self._folder = folder
        self._deleted = deleted
        self._segments = segments
        self._on_deleted = on_deleted

    def run(self) -> None:
        if self._files.exists(self._folder):
            self._files.rename(self._folder, self._deleted)
        else:
            self._files.make_directory(self._deleted)  # Removed from outside: the folder records the deletion.
        self._files.sync_directory(self._deleted.rpartition("/")[0])
        empty_folder(self._files, self._deleted)

    def finish(self) -> None:
        for segment in self._segments:
            segment.close()
        self._on_deleted(self._deleted)


class SetAsideJob:
    """Renames a partition's folder, so that it is no longer taken for a log."""

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
