"""What every client must be able to do with a broker, and how a test asks a client to do it.

A client is driven through the few commands below, whatever it is written in. What a
client cannot do by its own design it says in `cannot`, with the reason: the table of
the documentation shows that instead of a yes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ACKS = ("0", "1", "all")


@dataclass(slots=True)
class Progress:
    """What a member of a group holds and has got since it was last asked."""

    assigned: set[int] = field(default_factory=set)
    values: list[str] = field(default_factory=list)


class Member(Protocol):
    """A consumer in a group; `pump` gives it a moment to work."""

    def pump(self) -> Progress: ...

    def commit(self) -> None:
        """Commit what was delivered so far, and know that it is committed."""
        ...

    def leave(self) -> None: ...


class Transactor(Protocol):
    """A producer with a transactional id, ready to begin; what the broker refuses is raised."""

    def begin(self) -> None: ...

    def send(self, topic: str, value: str) -> None:
        """Write to partition 0, and know that it is written."""
        ...

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        """Commit a position in partition 0 as part of the transaction."""
        ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None:
        """Go, whatever state it is in."""
        ...


class Client(Protocol):
    """One client library, connected to one broker."""

    @property
    def version(self) -> str: ...

    @property
    def codecs(self) -> Sequence[str]:
        """Those of `CODECS` that it can write here."""
        ...

    def create(self, topic: str, partitions: int) -> None: ...

    def describe(self, topic: str) -> int:
        """How many partitions a topic has."""
        ...

    def delete(self, topic: str) -> None: ...

    def produce(self, topic: str, values: Sequence[str], codec: str = "none", acks: str = "all") -> None:
        """Deliver values to partition 0, in order and in one batch if possible."""
        ...

    def read(self, topic: str, offset: int, count: int) -> list[str]:
        """That many values of partition 0 from an offset on, without a group."""
        ...

    def read_committed(self, topic: str, count: int) -> list[str]:
        """That many values of partition 0 from its start, of committed transactions only."""
        ...

    def transactor(self, transactional_id: str, timeout_ms: int) -> Transactor:
        """Raises where the id cannot be had."""
        ...

    def offset_at(self, topic: str, timestamp: int) -> int:
        """The first offset of partition 0 that is not older."""
        ...

    def join(self, group: str, topic: str) -> Member: ...

    def close(self) -> None: ...
