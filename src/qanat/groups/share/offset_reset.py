"""Where a share group starts in a new partition: the setting `share.auto.offset.reset`.

`earliest`, `latest`, or `by_duration:` and an ISO 8601 duration such as `PT1H` or `P2DT12H`: the first record that is
no older than that.
"""

from __future__ import annotations

import re
from enum import StrEnum

from msgspec import Struct

_DURATION = re.compile(
    r"P(?=.)(?:(?P<days>\d+)D)?(?:T(?=.)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)
_BY_DURATION = "by_duration:"
_SECONDS = {"days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}


class Edge(StrEnum):
    """An end of the log."""

    EARLIEST = "earliest"
    LATEST = "latest"


class Since(Struct, frozen=True):
    """So long ago."""

    ago_ms: int


OffsetReset = Edge | Since


def parse_offset_reset(text: str) -> OffsetReset:
    """The parsed setting; raises `ValueError` where it is invalid."""
    if text in list(Edge):
        return Edge(text)
    found = _DURATION.fullmatch(text.removeprefix(_BY_DURATION)) if text.startswith(_BY_DURATION) else None
    if found is None:
        raise ValueError(f"{text!r} is neither earliest, latest nor by_duration:<duration>, such as by_duration:PT1H")
    seconds = sum(float(found[name]) * length for name, length in _SECONDS.items() if found[name] is not None)
    return Since(round(seconds * 1000))
