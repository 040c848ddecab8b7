"""Refreshes of push subscribers: a topic that a group receives again, from a start to a captured end.

The value is the ledger's entry; `edge.refresh_ledger` decides how it changes, the metadata store has it.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct


class RefreshState(Enum):
    """How far the refresh of one partition is."""

    WAITING = "waiting"
    """No subscriber was asked yet."""
    RESETTING = "resetting"
    """A subscriber was sent RESET."""
    REPLAYING = "replaying"
    """It has acknowledged RESET, and gets the records again."""
    READYING = "readying"
    """It has them all, and was sent READY."""
    DONE = "done"
    """It has acknowledged READY: the new generation is served, and the group's commit is at its end."""
    GIVEN_UP = "given-up"
    """It did not acknowledge for ten minutes."""
    CANCELLED = "cancelled"

    @property
    def is_over(self) -> bool:
        return self in _OVER


_OVER = (RefreshState.DONE, RefreshState.GIVEN_UP, RefreshState.CANCELLED)


class PartitionRefresh(Struct, frozen=True):
    """One partition of a refresh: records from `start` to `end`."""

    partition: int
    start: int
    end: int
    end_epoch: int = -1
    """The leader epoch in which the end was captured; -1 where it is unknown."""
    state: RefreshState = RefreshState.WAITING
    attempt: int = 0
    """Raised with every subscriber that is asked: the one before it changes nothing any more."""
    asked_ms: int = 0
    """Since when RESET or READY has had no answer."""


class PushRefresh(Struct, frozen=True, kw_only=True):
    """The newest refresh of a topic for a group."""

    version: int = 1
    id: str
    group: str
    topic: str
    begun_ms: int
    partitions: tuple[PartitionRefresh, ...]

    @property
    def is_over(self) -> bool:
        return all(one.state.is_over for one in self.partitions)

    def partition(self, number: int) -> PartitionRefresh | None:
        return next((one for one in self.partitions if one.partition == number), None)
