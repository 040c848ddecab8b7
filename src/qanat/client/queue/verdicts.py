"""What a consumer says about a record of a queue, and the token that fences a late one."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from qanat.connection.share_sessions import Kind


class Verdict(IntEnum):
    """The outcome of a record."""

    ACCEPT = Kind.ACCEPT
    """Done: it is not delivered again."""
    RELEASE = Kind.RELEASE
    """Not done: another delivery, to any consumer, until the group's limit."""
    REJECT = Kind.REJECT
    """Never to be done: it becomes a dead letter where the group has a topic for them."""
    RENEW = Kind.RENEW
    """Still at work: the lock begins again, and the record stays ours."""


class FencingToken(NamedTuple):
    """Grows with every delivery of a record: a store that keeps the highest refuses who lost the lock."""

    delivery_count: int
    member_epoch: int
