"""The port for partition assignors: members and topics in, an assignment out, stateless.

Rule 1: every partition of a subscribed topic is assigned to exactly one of its subscribers.
Rule 2: the same input gives the same assignment, whatever the order of its parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeAlias

from msgspec import Struct

from qanat.model.ids import TopicPartition

Assignment: TypeAlias = Mapping[str, tuple[TopicPartition, ...]]
"""Partitions by member, in order; every member is there, if only with nothing."""


class AssignedMember(Struct, frozen=True):
    """A member, as an assignor sees it."""

    topics: tuple[str, ...]
    """Its subscription."""
    current: tuple[TopicPartition, ...] = ()
    """Its current assignment."""
    instance_id: str | None = None
    rack_id: str | None = None


class Assignor(Protocol):
    """Divides the partitions of topics among members."""

    @property
    def name(self) -> str:
        """The name by which clients select it."""

    def assign(self, members: Mapping[str, AssignedMember], partition_counts: Mapping[str, int]) -> Assignment:
        """The assignment. A topic that is missing in `partition_counts` does not exist."""
