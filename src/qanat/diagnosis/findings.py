"""Findings: what limits, where, by which figures, and what to do."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Cause = Literal[
    "slow_disk",
    "slow_follower",
    "slow_store",
    "throttled_clients",
    "tiny_batches",
    "hot_partition",
    "full_loop",
    "busy_machine",
    "cold_reads",
    "unbalanced_leaders",
    "lagging_group",
]


class Finding(Struct, frozen=True):
    """Something that limits requests."""

    cause: Cause
    subject: str
    """What it is about: `broker 2`, `orders:3`, `group billing`."""
    summary: str
    """One sentence."""
    evidence: tuple[str, ...]
    """The figures it rests on."""
    remedy: str
    weight: float
    """How much it costs: the larger, the earlier it is named."""
    broker: int | None = None
    topic: str | None = None
    """The topic that it names, if any."""
    group: str | None = None
    """The group that it names, if any."""


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def milliseconds(seconds: float) -> str:
    """
    >>> milliseconds(0.0004), milliseconds(0.0314), milliseconds(2.5)
    ('0.4 ms', '31 ms', '2500 ms')
    """
    value = seconds * 1000
    return f"{value:.1f} ms" if value < 10 else f"{value:.0f} ms"


def per_second(count: float, seconds: float) -> str:
    """
    >>> per_second(12_000, 10), per_second(3, 10)
    ('1,200', '0.3')
    """
    rate = count / seconds
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.1f}"


def data(size: float) -> str:
    """
    >>> data(900), data(2048), data(5 * 1024 * 1024)
    ('900 bytes', '2.0 KiB', '5.0 MiB')
    """
    for limit, unit in ((1024**3, "GiB"), (1024**2, "MiB"), (1024, "KiB")):
        if size >= limit:
            return f"{size / limit:.1f} {unit}"
    return f"{size:.0f} bytes"
