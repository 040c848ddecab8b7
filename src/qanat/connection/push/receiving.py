"""What a push consumer has received: frames to acknowledge, and positions to resume at. Pure.

Rule 1: an ACK answers all frames before it, so it waits for the processing of each of them.
Rule 2: a position moves when a record is handed to the user, and back with RESET. A record below it is a repetition, as
        after a reconnection, and is dropped; its frame is acknowledged.
"""

from __future__ import annotations

from typing import NamedTuple

from qanat.model.ids import TopicPartition


class ResumePoint(NamedTuple):
    """The next offset of a partition, and the leader epoch of the record before it."""

    offset: int
    epoch: int = -1


class CumulativeAcks:
    """Which frames are processed; `done` says what to acknowledge."""

    def __init__(self) -> None:
        self._open: dict[int, bool] = {}
        """Frames in the order of their ids, and whether each is processed."""

    def arrived(self, frame_id: int) -> None:
        self._open[frame_id] = False

    def done(self, frame_id: int) -> int:
        """A frame is processed; returns the id to acknowledge, 0 where an earlier one is not processed yet."""
        if frame_id in self._open:
            self._open[frame_id] = True
        answered = 0
        while self._open and self._open[first := next(iter(self._open))]:
            answered = first
            del self._open[first]
        return answered

    def __len__(self) -> int:
        return len(self._open)


class Positions:
    """Where a consumer of mode `all` is; it outlives connections."""

    def __init__(self, known: dict[TopicPartition, ResumePoint] | None = None) -> None:
        self.known = dict(known or {})

    def is_new(self, at: TopicPartition, offset: int) -> bool:
        """Whether a record was not handed out before."""
        point = self.known.get(at)
        return point is None or offset >= point.offset

    def advance(self, at: TopicPartition, offset: int, epoch: int) -> None:
        """A record is handed out."""
        self.known[at] = ResumePoint(offset + 1, epoch)

    def reset(self, at: TopicPartition, offset: int, epoch: int) -> None:
        """What was received from here on is void."""
        self.known[at] = ResumePoint(offset, epoch)
