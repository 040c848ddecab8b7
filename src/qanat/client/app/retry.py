"""Retry policies: how often a failed record is tried again, after how long, and for which exceptions.

    Retry(5, backoff="1s..5m")                     # five tries in all; pauses double from 1 s to 5 min
    Retry(backoff="1s..1m", never=ValueError)      # without end, but a ValueError is given up at once
    RetryPolicy.PAUSE_ON_ERROR                     # a named policy, also what happens to what is given up

No clock and no randomness: the caller gives the jitter, and gets a pause or None.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Literal

from qanat.client.app.durations import Duration, span_s

Exceptions = type[BaseException] | tuple[type[BaseException], ...]

_DOUBLINGS_MAX = 60
"""More would overflow nothing, and reach every longest pause long before."""


@dataclass(frozen=True, slots=True)
class Retry:
    """How a failed record is tried again; its key waits meanwhile, other keys go on."""

    attempts: int | None = None
    """Tries in all, the first included; None tries without end."""
    backoff: Duration = "1s..5m"
    """The first and the longest pause; pauses double."""
    on: Exceptions = Exception
    """Exceptions that are tried again; others are given up at once."""
    never: Exceptions = ()
    """Exceptions that are given up at once, even where `on` names them."""

    def __post_init__(self) -> None:
        if self.attempts is not None and self.attempts < 1:
            raise ValueError(f"attempts is {self.attempts}, but a record is tried at least once")
        span_s(self.backoff)

    def pause_s(self, attempt: int, fault: BaseException, jitter: float) -> float | None:
        """How long to wait after the failed `attempt`, counted from 1; None gives up.

        `jitter`, from 0 to 1, moves the pause between half of it and all of it.
        """
        if self.attempts is not None and attempt >= self.attempts:
            return None
        if not isinstance(fault, self.on) or isinstance(fault, self.never):
            return None
        return self.pause_whatever_s(attempt, jitter)

    def pause_whatever_s(self, attempt: int, jitter: float) -> float:
        """The pause after the failed `attempt`, whatever failed and however often."""
        first, longest = span_s(self.backoff)
        pause = min(first * 2.0 ** min(attempt - 1, _DOUBLINGS_MAX), longest)
        return pause * (0.5 + 0.5 * jitter)


NO_RETRY = Retry(1)
"""One try."""

GiveUp = Literal["stop", "skip", "pause"]
"""What becomes of a record that is given up without a dead-letter topic: the app stops, goes on, or pauses there."""


class RetryPolicy(Enum):
    """Policies by name: how a failed record is tried again, and what becomes of it when it is given up."""

    EXPONENTIAL_THEN_FIXED = "EXPONENTIAL_THEN_FIXED"
    """Pauses double from 1 s to 1 min, then stay there; tried without end."""
    SKIP_ON_ERROR = "SKIP_ON_ERROR"
    """One try; the record is skipped, or moved to the dead-letter topic where there is one."""
    PAUSE_ON_ERROR = "PAUSE_ON_ERROR"
    """One try; its partition pauses in front of the record until the app is resumed."""

    @property
    def retry(self) -> Retry:
        return Retry(backoff="1s..1m") if self is RetryPolicy.EXPONENTIAL_THEN_FIXED else NO_RETRY

    @property
    def give_up(self) -> GiveUp | None:
        """None where the policy leaves it open: a record that cannot be decoded is given up under every policy."""
        match self:
            case RetryPolicy.SKIP_ON_ERROR:
                return "skip"
            case RetryPolicy.PAUSE_ON_ERROR:
                return "pause"
            case _:
                return None
