"""Durations as a person writes them: `"250ms"`, `"1s"`, `"5m"`, `"2h"`, `"1d"`; a plain number is seconds."""

from __future__ import annotations

from datetime import timedelta

Duration = str | float | int | timedelta
"""What every setting that is a duration takes."""

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def seconds(duration: Duration) -> float:
    """The duration in seconds; raises `ValueError` in one sentence."""
    if isinstance(duration, timedelta):
        return duration.total_seconds()
    if not isinstance(duration, str):
        return float(duration)
    written = duration.strip()
    number = written.rstrip("abcdefghijklmnopqrstuvwxyz")
    unit = written[len(number) :] or "s"
    try:
        amount = float(number)
    except ValueError:
        amount = -1.0
    if unit not in _UNITS_S or not 0 <= amount < float("inf"):
        raise ValueError(f"{duration!r} is no duration: write a number and ms, s, m, h or d, as in '30s' or '5m'")
    return amount * _UNITS_S[unit]


def span_s(span: Duration) -> tuple[float, float]:
    """A range `"1s..5m"` in seconds; a single duration is a range of one."""
    if not isinstance(span, str) or ".." not in span:
        return seconds(span), seconds(span)
    first, _, last = span.partition("..")
    low, high = seconds(first), seconds(last)
    if low > high:
        raise ValueError(f"{span!r} is no range: its first duration is longer than its last")
    return low, high
