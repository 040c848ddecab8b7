"""RESET and READY of refreshes on one connection: which are new, which are repetitions, and what answers them. Pure.

The broker repeats both until they are answered. A repetition while the first is being handled adds nothing; one that
crossed its answer is answered the same way again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from qanat.connection.push.receiving import ResumePoint
from qanat.model.ids import TopicPartition
from qanat.wire.push.control import Ack, Position, Ready, Reset, encode_control


class RefreshRange(NamedTuple):
    """What a refresh replays of a partition: from `start` up to `end`, which is not part of it."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Refresh:
    """A refresh, as one RESET or READY names it."""

    id: str
    topic: str
    partitions: Mapping[TopicPartition, RefreshRange]


@dataclass(slots=True)
class RefreshEvent:
    """A RESET or READY for the application."""

    refresh: Refresh
    is_ready: bool
    frame_id: int

    @property
    def key(self) -> tuple[bool, str, tuple[TopicPartition, ...]]:
        return self.is_ready, self.refresh.id, tuple(sorted(self.refresh.partitions))


class Repeated(NamedTuple):
    """A repetition that is answered at once."""

    frame_id: int
    payload: bytes


@dataclass(slots=True)
class RefreshFrames:
    """One connection."""

    under_way: dict[TopicPartition, Refresh] = field(default_factory=dict)
    """Partitions whose records belong to the new generation of a refresh."""
    _open: dict[object, RefreshEvent] = field(default_factory=dict)
    _answers: dict[object, bytes] = field(default_factory=dict)

    def arrived(self, frame_id: int, said: Reset | Ready) -> RefreshEvent | Repeated | None:
        """A frame: an event for the application, an answer to repeat, or nothing to do."""
        event = self._event(frame_id, said)
        if not said.retry:
            self._answers.pop(event.key, None)
        elif (handled := self._open.get(event.key)) is not None:
            handled.frame_id = frame_id
            return None
        elif (payload := self._answers.get(event.key)) is not None:
            return Repeated(frame_id, payload)
        self._open[event.key] = event
        return event

    def answered(self, event: RefreshEvent, reached: Mapping[TopicPartition, ResumePoint] | None = None) -> bytes:
        """The application has done what an event asks for; returns the payload of its ACK."""
        self._open.pop(event.key, None)
        for at in event.refresh.partitions:
            if event.is_ready:
                self.under_way.pop(at, None)
            else:
                self.under_way[at] = event.refresh
        known = {at: point for at, point in (reached or {}).items() if at in event.refresh.partitions}
        rows = [Position(at.topic, at.partition, point[0], point[1]) for at, point in known.items()]
        payload = encode_control(Ack(positions=rows)) if rows else b""
        self._answers[event.key] = payload
        return payload

    def failed(self, event: RefreshEvent) -> None:
        """The application could not do it: the next repetition is for it again."""
        self._open.pop(event.key, None)

    def _event(self, frame_id: int, said: Reset | Ready) -> RefreshEvent:
        ranges: dict[TopicPartition, RefreshRange] = {}
        if isinstance(said, Reset):
            for one in said.ranges:
                ranges[TopicPartition(said.topic, one.partition)] = RefreshRange(one.start, one.end)
        else:
            for place in said.positions:
                at = TopicPartition(place.topic, place.partition)
                known = self.under_way.get(at)
                start = known.partitions[at].start if known is not None else 0
                ranges[at] = RefreshRange(start, place.offset)
        return RefreshEvent(Refresh(said.refresh, said.topic, ranges), isinstance(said, Ready), frame_id)
