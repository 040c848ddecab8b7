"""Places in a topic as users write them: where to begin and where to end.

start  end  100        the first record, after the last one, an offset
+100  -100             counted from the start, counted from the end
@2h  @2026-01-01T00:00 so long ago, or a point in time (UTC unless it has a zone)
@+10m  now             in ten minutes, and now
@1767225600000         the same in milliseconds since 1970
100:200  @2h:@1h  :end a range: where to begin and, after the colon, where to end (exclusive)
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from qanat.app.client.arguments import WrongArgumentError
from qanat.connection.cluster import Cluster, TopicLeaders
from qanat.connection.deadline import Deadline
from qanat.connection.offsets import list_offsets

_AGE = re.compile(r"(\+?)([0-9]{1,15})(ms|s|m|h|d|w)")
_LATEST_MS = 253_402_300_799_999
"""The end of the year 9999, as far as dates go."""
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_EXPLAINED = "write start, end, an offset, +N, -N, @2h or @2026-01-01T00:00"

_SHOWN = 4

Bounds = Mapping[int, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Position:
    """A place in every partition: an offset, relative to start or end, or a timestamp."""

    kind: str
    """`start`, `end`, `offset` or `timestamp`."""
    number: int = 0
    """The distance from start or end; the offset; the timestamp in milliseconds."""


def parse_position(text: str, now_ms: int | None = None) -> Position:
    """One place; raises `WrongArgumentError` with the possible forms."""
    match text:
        case "start" | "beginning" | "earliest":
            return Position("start")
        case "end" | "latest":
            return Position("end")
        case "now":
            return Position("timestamp", _now_ms(now_ms))
    sign, digits = text[:1], text[1:]
    if _is_number(text):
        return Position("offset", int(text))
    if sign == "+" and _is_number(digits):
        return Position("start", int(digits))
    if sign == "-" and _is_number(digits):
        return Position("end", -int(digits))
    if sign == "@":
        return Position("timestamp", parse_timestamp(digits, now_ms))
    raise WrongArgumentError(f"{text!r} is not a place in a topic: {_EXPLAINED}")


def parse_range(text: str) -> tuple[Position, Position | None]:
    """A place, or two with a colon between; a date may have colons of its own."""
    with contextlib.suppress(WrongArgumentError):
        return parse_position(text), None
    for separator in [found.start() for found in re.finditer(":", text)]:
        first, last = text[:separator], text[separator + 1 :]
        try:
            found = parse_position(first or "start"), parse_position(last)
        except WrongArgumentError:
            continue
        check_order(text, *found)
        return found
    return parse_position(text), None


def check_order(text: str, first: Position, last: Position) -> None:
    """Refuse a range that is empty in every topic."""
    if first.kind == last.kind and last.number <= first.number:
        raise WrongArgumentError(f"there is nothing between the two ends of {text}: the second must be the later one")
    if first.kind == "end" and last.kind == "start":
        raise WrongArgumentError(f"there is nothing between the two ends of {text}: it begins at the end")


def parse_timestamp(text: str, now_ms: int | None = None) -> int:
    """Milliseconds since 1970 of `2h` ago, of `+2h` from now, of a date, or the number itself."""
    if _is_number(text):
        return _in_time(int(text), text)
    if text == "now":
        return _now_ms(now_ms)
    age = _AGE.fullmatch(text)
    if age is not None:
        span_ms = int(age[2]) * _UNITS_MS[age[3]]
        return _in_time(_now_ms(now_ms) + (span_ms if age[1] else -span_ms), text)
    try:
        timestamp = datetime.fromisoformat(text)
    except ValueError:
        raise WrongArgumentError(
            f"{text!r} is not a point in time: write 2h, 30m, 7d (ago), +10m (from now) or 2026-01-01T00:00"
        ) from None
    if timestamp.tzinfo is None:
        timestamp = timestamp.replace(tzinfo=UTC)
    return _in_time(int(timestamp.timestamp() * 1000), text)


def _now_ms(now_ms: int | None) -> int:
    return time.time_ns() // 1_000_000 if now_ms is None else now_ms


def _is_number(text: str) -> bool:
    """Whether it is an offset or a timestamp, all of which have fewer than 19 digits."""
    return text.isascii() and text.isdigit() and len(text) < 19


def _in_time(timestamp_ms: int, text: str) -> int:
    """The timestamp, if records can have it. Negative ones are special in the protocol: -1 is the end of the topic."""
    if timestamp_ms < 0:
        raise WrongArgumentError(f"{text!r} is before 1970: no record is that old; write `start` for the first")
    if timestamp_ms > _LATEST_MS:
        raise WrongArgumentError(f"{text!r} is after the year 9999: no record is that young")
    return timestamp_ms


async def offsets_at(
    cluster: Cluster, view: TopicLeaders, position: Position, bounds: Bounds, deadline: Deadline
) -> dict[int, int]:
    """The position's offset in each partition, within its `bounds`."""
    if position.kind == "timestamp":
        wanted = dict.fromkeys(bounds, position.number)
        found = await list_offsets(cluster, view.name, wanted, deadline)
        return {partition: _or_end(one.offset, bounds[partition]) for partition, one in found.items()}
    return {partition: _inside(_offset(position, first, end), first, end) for partition, (first, end) in bounds.items()}


def check_inside(text: str, position: Position, bounds: Bounds) -> None:
    """Refuse a place beyond the end of every partition: a consumer there would wait without a reason."""
    if position.kind not in ("start", "offset") or not bounds:
        return
    if any(_offset(position, first, end) <= end for first, end in bounds.values()):
        return
    held = ", ".join(f"{_held_offsets(partition, *bounds[partition])}" for partition in list(bounds)[:_SHOWN])
    more = f", and {len(bounds) - _SHOWN} more" if len(bounds) > _SHOWN else ""
    raise WrongArgumentError(f"{text} is beyond the end: {held}{more}")


def _held_offsets(partition: int, first: int, end: int) -> str:
    return f"partition {partition} " + (f"holds {first} to {end - 1}" if end > first else f"is empty, next is {end}")


def _or_end(offset: int, bounds: tuple[int, int]) -> int:
    """The offset, or the end where no record is that late."""
    return bounds[1] if offset < 0 else offset


def _offset(position: Position, first: int, end: int) -> int:
    match position.kind:
        case "start":
            return first + position.number
        case "end":
            return end + position.number
        case _:
            return position.number


def _inside(offset: int, first: int, end: int) -> int:
    return max(first, min(offset, end))
