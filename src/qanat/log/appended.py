# cython: language_level=3, annotation_typing=False
"""Where an appended batch is. Compiled and interpreted like `log.partition_log`."""

from __future__ import annotations


class Appended:
    """Where a batch is in the log."""

    __slots__ = ("base_offset", "is_duplicate", "is_flush_due", "last_offset")

    def __init__(self, base_offset: int, last_offset: int, is_duplicate: bool, is_flush_due: bool) -> None:
        self.base_offset = base_offset
        self.last_offset = last_offset
        self.is_duplicate = is_duplicate
        self.is_flush_due = is_flush_due
        """Whether `flush.messages` requires the batch on disk before it is acknowledged."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Appended) and self._fields() == other._fields()

    def __repr__(self) -> str:
        return "Appended" + repr(self._fields())

    def _fields(self) -> tuple[int, int, bool, bool]:
        return self.base_offset, self.last_offset, self.is_duplicate, self.is_flush_due
