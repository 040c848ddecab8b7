"""The plan of `qanat consume`: topic, partitions, and the positions to begin and to end at."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from qanat.app.client.arguments import WrongArgumentError
from qanat.app.records.topic_positions import (
    Bounds,
    Position,
    check_inside,
    check_order,
    offsets_at,
    parse_position,
    parse_range,
)
from qanat.connection.cluster import Cluster
from qanat.connection.fetching import FetchLimits
from qanat.connection.offsets import list_bounds
from qanat.connection.records.topic_reading import Reading


@dataclass(frozen=True, slots=True)
class ReadingPlan:
    """The flags, parsed but not yet resolved to offsets; `begin_text` is the text of --from."""

    topic: str
    first: Position
    last: Position | None
    begin_text: str = "start"
    partitions: tuple[int, ...] = ()
    limits: FetchLimits = field(default_factory=FetchLimits)

    async def reading(self, cluster: Cluster) -> Reading:
        """The offsets to begin and to end at, in every selected partition."""
        deadline = cluster.deadline()
        view = await cluster.topic(self.topic, deadline)
        bounds: Bounds = await list_bounds(cluster, view, deadline, is_committed_only=self.limits.is_committed_only)
        missing = [partition for partition in self.partitions if partition not in bounds]
        if missing:
            raise WrongArgumentError(
                f"topic {self.topic} has no partition {missing[0]}: it has 0 to {len(view.leaders) - 1}"
            )
        bounds = {partition: bounds[partition] for partition in self.partitions or bounds}
        check_inside(f"--from {self.begin_text}", self.first, bounds)
        positions = await offsets_at(cluster, view, self.first, bounds, deadline)
        until_ms = self._future_end_ms()
        is_fixed = self.last is not None and until_ms is None
        ends = await offsets_at(cluster, view, self.last, bounds, deadline) if is_fixed and self.last else {}
        return Reading(self.topic, positions, ends, until_ms, self.limits)

    def _future_end_ms(self) -> int | None:
        is_to_come = self.last is not None and self.last.kind == "timestamp" and self.last.number > _now_ms()
        return self.last.number if self.last is not None and is_to_come else None


def places(begin: str, until: str | None, *, is_to_end: bool, tail: int | None) -> tuple[Position, Position | None]:
    """Where to begin and to end, from the flags."""
    first, last = parse_range(begin)
    if tail is not None:
        if begin != "start" or tail < 1:
            raise WrongArgumentError("--tail takes a number above 0, and no --from beside it")
        first, last = Position("end", -tail), Position("end")
    ends = [parse_position(until)] if until is not None else []
    ends += [Position("end")] if is_to_end else []
    ends += [last] if last is not None else []
    if len(set(ends)) > 1:
        raise WrongArgumentError("set the end once: --until, -e, --tail or begin:end")
    if until is not None:
        check_order(f"--from {begin} --until {until}", first, ends[0])
    return first, ends[0] if ends else None


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
