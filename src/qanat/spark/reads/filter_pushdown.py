"""Filter pushdown: partitions, offsets and times that filters exclude from a read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from qanat.model.ids import TopicPartition
from qanat.spark.offsets import Bound, OffsetRange, Offsets


class TimeLookup(Protocol):
    """Finds the offset of a time."""

    def at(self, bound: Bound, partitions: list[TopicPartition], group: str | None, what: str) -> Offsets: ...


@dataclass(slots=True)
class PushedFilters:
    """The filters so far, combined; records that it excludes cannot satisfy them all."""

    _values: dict[str, set[object]] = field(default_factory=dict)
    _first: int = 0
    _end: int | None = None
    _since_ms: int | None = None

    def only(self, column: str, values: Sequence[object] | None) -> None:
        """Only these topics or partitions."""
        if values is not None:
            self._values[column] = self._values.get(column, set(values)) & set(values)

    def between(self, first: int | None, end: int | None) -> None:
        """Only these offsets."""
        if first is not None:
            self._first = max(self._first, first)
        if end is not None:
            self._end = end if self._end is None else min(self._end, end)

    def since(self, millis: int | None) -> None:
        """Nothing with an earlier timestamp. An upper bound does not help: later offsets may have earlier times."""
        if millis is None:
            return
        self._since_ms = millis if self._since_ms is None else max(self._since_ms, millis)

    def takes(self, at: TopicPartition) -> bool:
        topics, partitions = self._values.get("topic"), self._values.get("partition")
        return (topics is None or at.topic in topics) and (partitions is None or at.partition in partitions)

    def ranges(self, wanted: list[OffsetRange], times: TimeLookup) -> list[OffsetRange]:
        """The rest of the ranges."""
        first: Offsets = {}
        if self._since_ms is not None and wanted:
            bound = Bound("timestamp", timestamp=max(0, self._since_ms), if_too_late="latest")
            first = times.at(bound, [one.at for one in wanted], None, "a filter on timestamp")
        cut = [
            OffsetRange(
                one.at,
                max(one.start, self._first, first.get(one.at, 0)),
                one.end if self._end is None else min(one.end, self._end),
            )
            for one in wanted
        ]
        return [one for one in cut if one.size > 0]
