"""Measurements judged: each record is a measurement, or a dead letter with a reason.

A record is late, or from the future, by its own two times: the event's, in the JSON, and its timestamp in the log. The
micro-batch of a record plays no part.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Annotated

import msgspec
import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from numpy.typing import NDArray

from qanat.spark.rollups.rules import Rules

NOT_AN_OBJECT = "it is not a JSON object with id, metric, source, time and value"

_Text = Annotated[str, msgspec.Meta(min_length=1)]
_Millis = Annotated[int, msgspec.Meta(ge=-(2**62), le=2**62)]


class Measurement(msgspec.Struct, frozen=True, gc=False):
    """The JSON of a measurement; other fields are ignored."""

    id: _Text
    metric: _Text
    source: _Text
    time: _Millis
    value: float


_NONE = Measurement("", "", "", 0, 0.0)
_decode = msgspec.json.Decoder(Measurement).decode


@dataclass(frozen=True, slots=True)
class Judged:
    """The measurements of a batch as columns, and its other rows with their reasons."""

    ids: pa.Array
    metrics: pa.Array
    sources: pa.Array
    times_ms: NDArray[np.int64]
    values: NDArray[np.float64]
    dead: dict[int, str]


def judge(values: list[bytes | None], timestamps_ms: NDArray[np.int64], rules: Rules) -> Judged:
    """Judge records by their values and timestamps."""
    found, dead = _decoded(values)
    times = np.fromiter((one.time for one in found), np.int64, len(found))
    numbers = np.fromiter((one.value for one in found), np.float64, len(found))
    is_good = np.isfinite(numbers)
    _note(dead, ~is_good, "value is not finite")
    is_ahead = is_good & (times > timestamps_ms + rules.ahead_ms)
    _note(dead, is_ahead, f"time lies more than {rules.ahead} after its place in the log")
    is_late = is_good & (times < timestamps_ms - rules.lateness_ms)
    _note(dead, is_late, f"late: time lies more than {rules.lateness} before its place in the log")
    if dead:
        is_good[list(dead)] = False
        found = [one for number, one in enumerate(found) if number not in dead]
        times, numbers = times[is_good], numbers[is_good]
    return Judged(
        pa.array([one.id for one in found], pa.string()),
        pa.array([one.metric for one in found], pa.string()),
        pa.array([one.source for one in found], pa.string()),
        times,
        numbers,
        dead,
    )


def _decoded(values: list[bytes | None]) -> tuple[list[Measurement], dict[int, str]]:
    found: list[Measurement] = []
    dead: dict[int, str] = {}
    add, decode = found.append, _decode
    for value in values:
        try:
            add(decode(value))  # type: ignore[arg-type]  # None raises TypeError.
        except (msgspec.MsgspecError, TypeError, UnicodeDecodeError):
            dead[len(found)] = reason_of(value)
            add(_NONE)
    return found, dead


def _note(dead: dict[int, str], rows: NDArray[np.bool_], reason: str) -> None:
    for number in np.flatnonzero(rows).tolist():
        dead.setdefault(number, reason)


def reason_of(value: bytes | None) -> str:
    """Why a record is no measurement.

    >>> reason_of(b'{"id": "a", "metric": "m", "source": "s", "time": 1}'), reason_of(b"{")
    ('value is missing, or no number', 'it is not a JSON object with id, metric, source, time and value')
    """
    if value is None:
        return "it has no value"
    try:
        said = json.loads(value)
    except (ValueError, RecursionError):
        return NOT_AN_OBJECT
    if not isinstance(said, dict) or not any(said.get(name) is not None for name in Measurement.__struct_fields__):
        return NOT_AN_OBJECT
    for name in ("id", "metric", "source"):
        if not isinstance(said.get(name), str) or not said[name]:
            return f"{name} is missing, or no text"
    time, measured = said.get("time"), said.get("value")
    if isinstance(time, bool) or not isinstance(time, int) or abs(time) > 2**62:
        return "time is missing, or no whole number of milliseconds"
    if isinstance(measured, bool) or not isinstance(measured, int | float):
        return "value is missing, or no number"
    return "value is not finite" if not math.isfinite(measured) else NOT_AN_OBJECT
