# cython: language_level=3, annotation_typing=False
"""What all logs of one data directory share: whether it still works, and how much is on its way to the disk.

Rule: the first failed fsync or write is final. From then on nothing in the
directory is accepted or acknowledged, because nobody can say what is on disk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from qanat.model.errors import DirectoryFailedError, PartitionDeletedError, StorageError
from qanat.model.ids import TopicPartition

if TYPE_CHECKING:
    from qanat.log.partition_log import PartitionLog
    from qanat.log.segments.batch_scan import Damage


class DirectoryState:
    """Shared by reference; changed on the owner's thread only."""

    __slots__ = ("failure", "on_damage", "on_failure", "unflushed_bytes")

    def __init__(self) -> None:
        self.failure: StorageError | None = None
        self.unflushed_bytes = 0
        self.on_failure: Callable[[StorageError], None] | None = None
        """Told once, when the directory is given up."""
        self.on_damage: Callable[[PartitionLog, tuple[Damage, ...]], None] | None = None
        """Called on the owner's thread, once for each damage that is found (`LogRuntime` counts and passes it on)."""

    @staticmethod
    def of_deleted(at: TopicPartition, unflushed_bytes: int) -> DirectoryState:
        """What a log is given that has no place in the directory any more: it refuses everything."""
        state = DirectoryState()
        state.unflushed_bytes = unflushed_bytes
        state.fail(PartitionDeletedError(f"{at} was deleted"))
        return state

    def fail(self, error: StorageError) -> None:
        """Give the directory up; the first reason is the one that counts."""
        if self.failure is None:
            self.failure = error
            if self.on_failure is not None:
                self.on_failure(error)

    def failed_error(self) -> StorageError:
        """What to tell whoever wants something of a directory that failed, or of a log that is gone."""
        if isinstance(self.failure, PartitionDeletedError):
            return PartitionDeletedError(str(self.failure))
        return DirectoryFailedError(
            f"this data directory was given up after: {self.failure}; check the disk, then restart the broker"
        )

    def require_working(self) -> None:
        if self.failure is not None:
            raise self.failed_error()
