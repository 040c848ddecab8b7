"""How much a pipe asks for at once, and in which order: by priority, by the link's speed, within a limit.

An answer holds the link until it is there. So an answer is sized to take a quarter of a second at the speed that was
measured; topics of higher classes come first in every request. While there is a backlog, the next request leaves before
the present answer is whole, early enough that the link never waits for it: a record of high priority waits for the rest
of one answer and for the one that was asked for ahead. The first answers are small, since nothing is known of the link
yet. Requests of the registry and of health have connections of their own, and are small.

Rule 1: an answer has at least one batch, whatever its size: a link may be slow, but it must progress.
Rule 2: a lower class is asked for in every request, after the higher ones; every `SHARE`th request is its turn to be
        first, so that it does not starve.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

Key = TypeVar("Key")

LEAST_BYTES, MOST_BYTES = 16 * 1024, 4 * 1024 * 1024
_ANSWER_MS = 250
_SLACK_MS = 60
_WEIGHT = 0.3
_GROWTH = 4
SHARE = 8


class Pace:
    """The speed of one pipe."""

    def __init__(self, limit_bytes_per_s: int = 0) -> None:
        """`limit_bytes_per_s` is the bandwidth limit; 0 is none."""
        self._limit = limit_bytes_per_s
        self._measured = 0.0
        """Bytes per millisecond; 0 where nothing was measured."""
        self._most = LEAST_BYTES
        """What the link has shown that it bears: grows with answers that were large."""
        self._free_ms = 0
        self._turnaround_ms: int | None = None
        """The shortest time from a request to the first byte of its answer."""

    def answered(self, size: int, waited_ms: int, took_ms: int, now_ms: int, alongside: int = 0) -> None:
        """An answer of `size` bytes was waited for so long, and took so long from its first byte to its last. So many
        bytes of other answers came `alongside` it in that time: both together show the speed of the link."""
        self._turnaround_ms = waited_ms if self._turnaround_ms is None else min(waited_ms, self._turnaround_ms)
        if 2 * size >= self._most:
            self._most = min(_GROWTH * self._most, MOST_BYTES)
        if size >= LEAST_BYTES // 2:
            speed = (size + alongside) / max(took_ms, 1)
            self._measured = speed if not self._measured else self._measured + _WEIGHT * (speed - self._measured)
        if self._limit:
            self._free_ms = max(self._free_ms, now_ms - _ANSWER_MS) + round(size * 1000 / self._limit)

    def answer_bytes(self) -> int:
        """How much to ask for."""
        speeds = [speed for speed in (self._measured, self._limit / 1000) if speed]
        wanted = round(min(speeds) * _ANSWER_MS) if speeds else LEAST_BYTES
        return max(LEAST_BYTES, min(wanted, self._most))

    def expected_ms(self, size: int) -> int:
        """How long so many bytes will take; 0 where the link is not known."""
        return round(size / self._measured) if self._measured else 0

    def ahead_bytes(self) -> int:
        """The next request may leave when so little of an answer is missing; 0 where it must wait for the whole."""
        if self._limit or self._turnaround_ms is None:
            return 0
        return round(self._measured * (2 * self._turnaround_ms + _SLACK_MS))

    def wait_ms(self, now_ms: int) -> int:
        """How long to wait before the next request, for the limit's sake."""
        return max(0, self._free_ms - now_ms) if self._limit else 0


def in_order(classes: Sequence[Sequence[Key]], number: int) -> list[Key]:
    """The partitions of a request, by class, the highest class first; `number` counts requests.

    Within a class the first changes from request to request.
    """
    order = list(classes)
    lower = order[1:]
    if lower and number % SHARE == SHARE - 1:
        chosen = lower[number // SHARE % len(lower)]
        order = [chosen, *(one for one in order if one is not chosen)]
    place = number + number // (SHARE * max(1, len(lower)))
    return [key for one in order for key in _rotated(one, place)]


def _rotated(keys: Sequence[Key], number: int) -> list[Key]:
    if not keys:
        return []
    at = number % len(keys)
    return [*keys[at:], *keys[:at]]
