"""What a push consumer has received: frames to acknowledge, and positions to resume at. Pure.

Rule 1: an ACK answers all frames before it, so it waits for the processing of each of them.
Rule 2: a position moves when a record is handed to the user, and back with RESET. A record below it is a repetition, as
        after a reconnection, and is dropped; its frame is acknowledged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from qanat.model.ids import TopicPartition
from qanat.wire.push.control import Position


class ResumePoint(NamedTuple):
    """The next offset of a partition, the leader epoch of the record before it, and the id of the topic.

    Without its id, a topic that was deleted and made again is taken for the former one of its name.
    """

    offset: int
    epoch: int = -1
    topic_id: str = ""


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
    """Where a consumer of mode `all` is, and which topics a consumer has records of; it outlives connections."""

    def __init__(self, known: dict[TopicPartition, ResumePoint] | None = None) -> None:
        self.known = dict(known or {})
        self.topic_ids: dict[TopicPartition, str] = {at: point.topic_id for at, point in self.known.items()}
        self._told: Mapping[str, str] = {}

    def connected(self, topic_ids: Mapping[str, str]) -> None:
        """The answer to SUBSCRIBE has the ids of the topics: where one is another now, RESET follows."""
        self._told = topic_ids

    def has(self, at: TopicPartition) -> None:
        """Records of a partition have arrived: of the topic of which the broker spoke last."""
        if not self.topic_ids.get(at):
            self.topic_ids[at] = self._told.get(at.topic, "")

    def rows(self, *, is_all: bool) -> list[Position]:
        """What SUBSCRIBE says: in mode `all` the positions; for a group, which has them, only what they are about."""
        if is_all:
            return [Position(at.topic, at.partition, *point) for at, point in self.points.items()]
        return [Position(at.topic, at.partition, 0, -1, one) for at, one in self.topic_ids.items() if one]

    @property
    def points(self) -> dict[TopicPartition, ResumePoint]:
        """The positions, with the ids of their topics."""
        return {at: point._replace(topic_id=self.topic_ids.get(at, "")) for at, point in self.known.items()}

    def is_new(self, at: TopicPartition, offset: int) -> bool:
        """Whether a record was not handed out before."""
        point = self.known.get(at)
        return point is None or offset >= point.offset

    def advance(self, at: TopicPartition, offset: int, epoch: int) -> None:
        """A record is handed out."""
        self.known[at] = ResumePoint(offset + 1, epoch)

    def reset(self, at: TopicPartition, offset: int, epoch: int, topic_id: str = "") -> None:
        """What was received from here on is void; with the id of another topic, all that was received."""
        self.known[at] = ResumePoint(offset, epoch)
        if topic_id:
            self.topic_ids[at] = topic_id
