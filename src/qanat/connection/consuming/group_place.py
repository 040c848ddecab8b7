"""A place in a consumer group: what a consumer needs of it, whichever protocol the group speaks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from qanat.connection.consuming.group_commits import CommittedOffset, Identity
from qanat.model.ids import TopicPartition


class Listener(Protocol):
    """Hears of changes of an assignment; the place waits for each call, its heartbeats do not."""

    async def assigned(self, partitions: list[TopicPartition]) -> None:
        """These are ours now, besides those from before."""

    async def revoked(self, partitions: list[TopicPartition]) -> None:
        """These go to others after this call: commit now."""

    async def lost(self, partitions: list[TopicPartition]) -> None:
        """Others may have these already: a commit would be refused."""


class PlaceTerms(msgspec.Struct, frozen=True):
    """How a consumer takes part in a group."""

    session_ms: int = 30_000
    """Session timeout of the classic protocol; the broker sets that of KIP-848."""
    rebalance_ms: int = 300_000
    """How long a listener may take over a revocation."""
    heartbeat_s: float = 3.0
    """Time between heartbeats in the classic protocol; the broker sets that of KIP-848."""
    instance_id: str | None = None
    rack_id: str | None = None
    assignors: Sequence[str] = ("range", "cooperative-sticky")
    """Assignors of the classic protocol; cooperative only where all of them are."""
    server_assignor: str | None = None
    pattern: str | None = None
    """A pattern of topics, in RE2's syntax; KIP-848 only."""


class GroupPlace(Protocol):
    """A member of a group, from `start` to `close`."""

    @property
    def identity(self) -> Identity: ...

    @property
    def is_joined(self) -> bool:
        """Whether the group has told us our part."""

    @property
    def trouble(self) -> str:
        """Why the last heartbeat was not answered; empty where it was."""

    def start(self) -> None:
        """Join, and stay a member."""

    async def wait_failed(self) -> None:
        """Wait until the group refuses this member for good, and raise why."""

    def subscribe(self, topics: Sequence[str]) -> None:
        """Subscribe to these topics instead."""

    async def commit(self, offsets: Mapping[TopicPartition, CommittedOffset]) -> bool:
        """Commit as this member; False where it is none any longer, and others may have gone on."""

    async def close(self) -> None:
        """Give back everything, and leave."""
