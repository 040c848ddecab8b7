"""Durations as users write them: "90 seconds", "5 minutes", "1 hour"."""

from __future__ import annotations

import re

_SECONDS = {"s": 1, "second": 1, "m": 60, "min": 60, "minute": 60, "h": 3600, "hour": 3600, "d": 86400, "day": 86400}
_FORM = re.compile(r"\s*(\d+)\s*([a-z]+?)s?\s*")

MEANT = 'a duration such as "30 seconds", "5 minutes", "1 hour" or "1 day"'


def seconds_of(text: str) -> int:
    """
    >>> seconds_of("5 minutes"), seconds_of("1h"), seconds_of("90 s")
    (300, 3600, 90)
    """
    found = _FORM.fullmatch(text.lower())
    if found is None or found[2] not in _SECONDS or int(found[1]) == 0:
        raise ValueError(f"{text!r} is not {MEANT}")
    return int(found[1]) * _SECONDS[found[2]]
