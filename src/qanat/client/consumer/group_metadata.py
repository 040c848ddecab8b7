"""Who a consumer is in its group: what a transaction needs to commit its offsets (KIP-447)."""

from __future__ import annotations

import msgspec


class ConsumerGroupMetadata(msgspec.Struct, frozen=True):
    """A member of a group at one moment: a transaction that carries it is refused once the group has moved on."""

    group: str
    generation_or_epoch: int = -1
    member_id: str = ""
    instance_id: str | None = None


class ConsumerHealth(msgspec.Struct, frozen=True):
    """How a consumer is doing. A late handler causes no rebalance; it is reported here."""

    is_joined: bool
    """Whether the group has assigned its part; always true without a group."""
    since_poll_s: float
    """How long ago records were last asked for."""
    is_late: bool
    """Whether that is longer than `max.poll.interval.ms`, with records in hand."""
    problem: str = ""
    """The latest trouble, empty where there is none."""
