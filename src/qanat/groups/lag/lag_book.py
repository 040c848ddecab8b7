"""The lag of all groups of one coordinator, from pass to pass.

A pass tells the book the end of every partition that matters (`observe_end`), then the positions of every group
(`observe_group`), then that it is over (`end_pass`): what it did not mention is forgotten. The caller may yield between
two calls.

Rule 1: times are of one steady clock. A commit's age comes from the wall clock, and is an argument.
Rule 2: memory is bounded by `ENDS_MAX` and `POINTS_MAX`: the more partitions and groups, the fewer points has each.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from qanat.groups.lag.commit_window import CommitWindow, LagState, worst
from qanat.groups.lag.end_offsets import EndOffsets
from qanat.groups.lag.history import LagHistory, LagPoint
from qanat.groups.lag.reports import GroupLag, PartitionLag, TopicLag
from qanat.model.ids import TopicPartition

ENDS_MAX = 400_000
"""Entries of end offsets, of 24 bytes, over all partitions."""
POINTS_MAX = 360_000
"""Points of history, of 24 bytes, over all groups."""
ENDS_EACH_MAX = 240


@dataclass(frozen=True, slots=True)
class Position:
    """Where a group is in one partition."""

    at: TopicPartition
    committed: int
    committed_ms: int | None
    """When it committed, on the steady clock; None where that is not known."""
    left: int | None = None
    """Records of a share group that are not finished; they need not be all that follow."""


class _TrackedGroup:
    """One group between passes."""

    __slots__ = ("history", "lag", "partitions", "seen", "windows")

    def __init__(self) -> None:
        self.windows: dict[TopicPartition, CommitWindow] = {}
        self.history = LagHistory()
        self.lag: GroupLag | None = None
        self.partitions: list[PartitionLag] = []
        self.seen = 0


class _TrackedEnd:
    """One partition between passes."""

    __slots__ = ("ends", "seen", "topic_id")

    def __init__(self, topic_id: str) -> None:
        self.topic_id = topic_id
        self.ends = EndOffsets()
        self.seen = 0


class LagBook:
    """The lag of the groups of one coordinator."""

    def __init__(self) -> None:
        self._pass = 1
        self._ends: dict[TopicPartition, _TrackedEnd] = {}
        self._groups: dict[str, _TrackedGroup] = {}

    def observe_end(self, at: TopicPartition, topic_id: str, end: int, now_ms: int) -> None:
        """The end of a partition; a topic with another id is another topic."""
        tracked = self._ends.get(at)
        if tracked is None or tracked.topic_id != topic_id:
            tracked = self._ends[at] = _TrackedEnd(topic_id)
        tracked.seen = self._pass
        tracked.ends.observe(end, now_ms, min(ENDS_MAX // len(self._ends), ENDS_EACH_MAX))

    def keep_end(self, at: TopicPartition) -> None:
        """No leader told the end of a partition in this pass: what we know of it stays."""
        if (tracked := self._ends.get(at)) is not None:
            tracked.seen = self._pass

    def observe_group(self, group: str, kind: str, positions: Iterable[Position], now_ms: int) -> None:
        """The positions of a group; partitions whose end is not known are left out."""
        tracked = self._groups.get(group)
        if tracked is None:
            tracked = self._groups[group] = _TrackedGroup()
        tracked.seen = self._pass
        windows, rows, states = tracked.windows, [], []
        tracked.windows = {}
        for position in positions:
            window = tracked.windows[position.at] = windows.get(position.at) or CommitWindow()
            if (found := self._lag_of(position, window, now_ms)) is not None:
                rows.append(found[0])
                states.append(found[1])
        rows.sort(key=lambda row: (row.topic, row.partition))
        tracked.partitions = rows
        tracked.lag = _total(group, kind, rows, worst(states))
        point = LagPoint(now_ms, tracked.lag.records, tracked.lag.seconds)
        tracked.history.append(point, POINTS_MAX // len(self._groups))

    def _lag_of(self, position: Position, window: CommitWindow, now_ms: int) -> tuple[PartitionLag, LagState] | None:
        tracked = self._ends.get(position.at)
        end = None if tracked is None or tracked.seen != self._pass else tracked.ends.end
        if tracked is None or end is None:
            return None
        records = max(end - position.committed, 0) if position.left is None else position.left
        age = tracked.ends.age(position.committed, now_ms)
        waited_ms = age.ms if records else 0.0
        window.observe(position.committed, records, position.committed_ms, now_ms)
        state = window.state(records, waited_ms, now_ms)
        seconds = round(waited_ms / 1000, 3)
        row = PartitionLag(
            position.at.topic,
            position.at.partition,
            position.committed,
            end,
            records,
            seconds,
            age.is_exact or not records,
            state.value,
        )
        return row, state

    def end_pass(self) -> None:
        """Forget what this pass did not mention."""
        self._ends = {at: one for at, one in self._ends.items() if one.seen == self._pass}
        self._groups = {group: one for group, one in self._groups.items() if one.seen == self._pass}
        self._pass += 1

    def lags(self) -> list[GroupLag]:
        """All groups, as of the last pass."""
        return [one.lag for one in self._groups.values() if one.lag is not None]

    def partitions(self, group: str) -> list[PartitionLag]:
        """The partitions of a group, as of the last pass."""
        return self._groups[group].partitions if group in self._groups else []

    def lag(self, group: str) -> GroupLag | None:
        return self._groups[group].lag if group in self._groups else None

    def history(self, group: str) -> list[LagPoint]:
        """The last day of a group, on the steady clock."""
        return self._groups[group].history.points() if group in self._groups else []

    @property
    def points_kept(self) -> int:
        """Entries and points in memory, each of 24 bytes."""
        ends = sum(len(one.ends) for one in self._ends.values())
        return ends + sum(len(one.history) for one in self._groups.values())


def _total(group: str, kind: str, rows: list[PartitionLag], state: LagState) -> GroupLag:
    topics: dict[str, TopicLag] = {}
    for row in rows:
        before = topics.get(row.topic, TopicLag(row.topic, 0, 0.0))
        topics[row.topic] = TopicLag(row.topic, before.records + row.records, max(before.seconds, row.seconds))
    return GroupLag(
        group,
        kind,
        sum(row.records for row in rows),
        max((row.seconds for row in rows), default=0.0),
        all(row.is_exact for row in rows),
        state.value,
        list(topics.values()),
    )
