"""A set that is gone through in the order in which it was filled.

A plain set of objects goes by their addresses: what is cancelled or told first would hang on that, and a simulated
life would not be the same twice.
"""

from __future__ import annotations

from typing import TypeVar

Member = TypeVar("Member")


class OrderedSet(dict[Member, None]):
    """As much of a set as is needed."""

    __slots__ = ()

    def add(self, member: Member) -> None:
        self[member] = None

    def discard(self, member: Member) -> None:
        self.pop(member, None)
