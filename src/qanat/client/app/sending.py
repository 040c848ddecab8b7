"""`Send`: what a handler returns to have a record written.

Without transactions a record is finished when what it sends is acknowledged; with `exactly_once`, it is written in
the transaction that commits the record.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec


class Send(msgspec.Struct, frozen=True):
    """A record to be written."""

    topic: str
    value: Any = None
    key: Any = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int | None = None
    timestamp_ms: int | None = None


Sends = Send | Iterable[Send] | None
"""What a handler may return."""


def as_sends(result: object) -> tuple[Send, ...]:
    """What a handler returned, as a tuple; raises `TypeError` where it is something else."""
    if result is None:
        return ()
    if isinstance(result, Send):
        return (result,)
    if isinstance(result, Iterable) and not isinstance(result, str | bytes | dict):
        sends = tuple(result)
        if all(isinstance(one, Send) for one in sends):
            return sends
    raise TypeError(f"a handler returns None, a Send or a list of Sends, but this one returned {result!r:.80}")
