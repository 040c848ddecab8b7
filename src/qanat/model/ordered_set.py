"""A set that iterates in insertion order.

A plain set of objects iterates by their addresses: the order of cancellations and notifications would depend on
those, and a simulation would not repeat itself.
"""

from __future__ import annotations

from typing import TypeVar

Member = TypeVar("Member")


class OrderedSet(dict[Member, None]):
    """The part of a set that is needed."""

    __slots__ = ()

    def add(self, member: Member) -> None:
        self[member] = None

    def discard(self, member: Member) -> None:
        self.pop(member, None)
