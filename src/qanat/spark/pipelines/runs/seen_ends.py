"""Seen ends: when the end of a partition was first where it is, for a lag in seconds without asking brokers. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

_NOTES_MAX = 1000
"""Of a partition; with more, every second one is dropped, and the lag gets less exact."""


class SeenEnds:
    """The ends of the partitions of one query's topics, with the time at which they were seen."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], deque[tuple[int, int]]] = {}

    def note(self, ends: Mapping[str, Mapping[str, int]], offsets: Mapping[str, Mapping[str, int]], at_ms: int) -> None:
        """Note ends by topic and partition; what lies before `offsets` is read and needs no note.

        >>> seen = SeenEnds()
        >>> seen.note({"t": {"0": 5}}, {"t": {"0": 5}}, 1000)
        >>> seen.note({"t": {"0": 9}}, {"t": {"0": 5}}, 3000)
        >>> seen.seconds("t", {"0": 5}, 10_000), seen.seconds("t", {"0": 9}, 10_000)
        (7.0, 0.0)
        """
        for topic, by_partition in ends.items():
            for partition, end in by_partition.items():
                notes = self._seen.setdefault((topic, partition), deque())
                done = offsets.get(topic, {}).get(partition, 0)
                while notes and notes[0][0] <= done:
                    notes.popleft()
                if end > done and (not notes or notes[-1][0] < end):
                    notes.append((end, at_ms))
                if len(notes) > _NOTES_MAX:
                    self._seen[topic, partition] = deque(list(notes)[::2])

    def seconds(self, topic: str, offsets: Mapping[str, int], now_ms: int) -> float:
        """How long ago the oldest unread record was first seen to be there; 0 where there is none."""
        oldest = now_ms
        for partition, done in offsets.items():
            for end, at_ms in self._seen.get((topic, partition), ()):
                if end > done:
                    oldest = min(oldest, at_ms)
                    break
        return (now_ms - oldest) / 1000
