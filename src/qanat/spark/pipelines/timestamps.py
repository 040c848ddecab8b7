"""Timestamps as users write them: ISO 8601, or milliseconds since 1970. Pure."""

from __future__ import annotations

from datetime import UTC, datetime

from qanat.spark.pipelines.document import PipelineError


def timestamp_ms(text: str, what: str) -> int:
    """Milliseconds since 1970; raises `PipelineError` with the possible forms.

    >>> timestamp_ms("2026-11-15T10:30", "until"), timestamp_ms("2026-11-15T11:30:00.5+01:00", "until")
    (1794738600000, 1794738600500)
    >>> timestamp_ms("1794738600000", "until")
    1794738600000
    """
    if text.isascii() and text.isdigit() and len(text) < 16:
        return int(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise PipelineError(
            f"{what} {text!r} is not a point in time: write 2026-11-15T10:30:00 (UTC unless it says otherwise, as in "
            "2026-11-15T11:30:00+01:00), or milliseconds since 1970"
        ) from None
    if found.tzinfo is None:
        found = found.replace(tzinfo=UTC)
    return round(found.timestamp() * 1000)


def shown(timestamp: int) -> str:
    """
    >>> shown(1794738600500)
    '2026-11-15T10:30:00.500Z'
    """
    return datetime.fromtimestamp(timestamp / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
