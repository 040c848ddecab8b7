# cython: language_level=3, annotation_typing=False
"""Directory state: what all logs of one data directory share: its failure, and its unflushed bytes.

Rule: the first failed fsync or write is final. From then on nothing in the
directory is accepted or acknowledged, because it is unknown what is on disk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from qanat.model.errors import DirectoryFailedError, PartitionDeletedError, StorageError
from qanat.model.ids import TopicPartition

if TYPE_CHECKING:
    from qanat.log.segments.batch_scan import Damage


class DirectoryState:
    """Shared by reference; changed on the owner's thread only."""

    __slots__ = ("failure", "on_damage", "on_failure", "on_high_watermark", "unflushed_bytes")

    def __init__(self) -> None:
        self.failure: StorageError | None = None
        self.unflushed_bytes = 0
        self.on_failure: Callable[[StorageError], None] | None = None
        """Called once, when the directory fails."""
        self.on_damage: Callable[[Any, tuple[Damage, ...]], None] | None = None
        """Called with the log on the owner's thread, once for each damage found (`LogRuntime` reports it)."""

        self.on_high_watermark: Callable[[Any], None] | None = None
        """Called with the log whenever its high watermark has moved: simulations check every step."""

    @staticmethod
    def of_deleted(at: TopicPartition, unflushed_bytes: int) -> DirectoryState:
        """The state of a log that was removed from the directory: it refuses everything."""
        state = DirectoryState()
        state.unflushed_bytes = unflushed_bytes
        state.fail(PartitionDeletedError(f"{at} was deleted"))
        return state

    def fail(self, error: StorageError) -> None:
        """Fail the directory; the first error counts."""
        if self.failure is None:
            self.failure = error
            if self.on_failure is not None:
                self.on_failure(error)

    def failed_error(self) -> StorageError:
        """The error for callers of a failed directory, or of a deleted log."""
        if isinstance(self.failure, PartitionDeletedError):
            return PartitionDeletedError(str(self.failure))
        return DirectoryFailedError(
            f"this data directory was given up after: {self.failure}; check the disk, then restart the broker"
        )

    def require_working(self) -> None:
        if self.failure is not None:
            raise self.failed_error()
