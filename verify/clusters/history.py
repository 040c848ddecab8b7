"""The history of a run: what clients sent and read, in order."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct, field


class Outcome(Enum):
    """How an operation ended, as far as its client knows."""

    DONE = "done"
    FAILED = "failed"
    """It certainly did not happen: the broker refused it, or its transaction was aborted."""
    UNKNOWN = "unknown"
    """No response, or one that leaves the outcome open."""


class Send(Struct):
    """One value sent to one partition."""

    client: str
    partition: int
    value: bytes
    invoked: int
    """Number of the operation; later operations have larger numbers."""
    outcome: Outcome = Outcome.UNKNOWN
    offset: int = -1
    transaction: int = -1
    """The transaction that it is part of; -1 for none."""


class Poll(Struct):
    """The records of one fetch from one partition, in order."""

    client: str
    partition: int
    position: int
    """The offset that the consumer asked for."""
    seen: list[tuple[int, bytes]]
    is_final: bool = False
    """Whether it belongs to the last read of everything, after healing."""


class History(Struct):
    """All operations of all clients."""

    sends: list[Send] = field(default_factory=list)
    polls: list[Poll] = field(default_factory=list)

    @property
    def acknowledged(self) -> int:
        return sum(send.outcome is Outcome.DONE for send in self.sends)
