"""What clients did and saw, in the order in which it happened."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct, field


class Outcome(Enum):
    """How an operation ended, as far as its client knows."""

    DONE = "done"
    FAILED = "failed"
    """Certainly not: it was refused, or its transaction was aborted."""
    UNKNOWN = "unknown"
    """No answer, or one that leaves it open."""


class Send(Struct):
    """One value on its way into one partition."""

    client: str
    partition: int
    value: bytes
    invoked: int
    """Number of the operation; later ones have larger numbers."""
    outcome: Outcome = Outcome.UNKNOWN
    offset: int = -1
    transaction: int = -1
    """Which transaction it is part of; -1 for none."""


class Poll(Struct):
    """What one look at one partition brought, in order."""

    client: str
    partition: int
    position: int
    """Where it looked."""
    seen: list[tuple[int, bytes]]
    is_final: bool = False
    """Whether it was made after everything was healed, by somebody who reads everything."""


class History(Struct):
    """All of it."""

    sends: list[Send] = field(default_factory=list)
    polls: list[Poll] = field(default_factory=list)

    @property
    def acknowledged(self) -> int:
        return sum(send.outcome is Outcome.DONE for send in self.sends)
