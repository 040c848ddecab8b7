"""The port for partition assignors: members and topics in, an assignment out, nothing remembered in between.

Rule 1: every partition of a topic that somebody subscribes to goes to exactly one member that subscribes to it.
Rule 2: the same question has the same answer, whatever the order of its parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeAlias

from msgspec import Struct

from qanat.model.ids import TopicPartition

Assignment: TypeAlias = Mapping[str, tuple[TopicPartition, ...]]
"""Partitions by member, in order; every member is there, if only with nothing."""


class AssignedMember(Struct, frozen=True):
    """What an assignor is told of a member."""

    topics: tuple[str, ...]
    """What it subscribes to."""
    current: tuple[TopicPartition, ...] = ()
    """What it has now."""
    instance_id: str | None = None
    rack_id: str | None = None


class Assignor(Protocol):
    """Divides the partitions of topics among members."""

    @property
    def name(self) -> str:
        """How clients ask for it."""

    def assign(self, members: Mapping[str, AssignedMember], partition_counts: Mapping[str, int]) -> Assignment:
        """Who gets what. A topic that is missing in `partition_counts` does not exist."""
