"""Refusals of heartbeats that consumer groups and share groups have in common."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from qanat.model.error_codes import ErrorCode

JOINING = 0
LEAVING = -1
LONGEST_NAME = 8_000
"""Characters in a member's own names: they must fit a record's key."""

Kind = Literal["consumer", "share"]


class Refusal(NamedTuple):
    """An error for a member, instead of its assignment."""

    error: ErrorCode
    message: str


def bad_name(names: Iterable[tuple[str, str | None]]) -> str | None:
    """Which of these fields is blank or too long; None where none is. A field may be left out."""
    for field, value in names:
        if value is not None and not 0 < len(value.strip()) <= LONGEST_NAME:
            return f"{field} can't be empty, or longer than {LONGEST_NAME} characters."
    return None


def other_kind(kind: Kind, group_id: str) -> Refusal:
    """There is no such group, or it is of another kind."""
    return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a {kind} group.")


def full(kind: Kind, size_max: int) -> Refusal:
    text = f"The {kind} group has reached its maximum capacity of {size_max} members."
    return Refusal(ErrorCode.GROUP_MAX_SIZE_REACHED, text)


def unknown_member(group_id: str, member_id: str) -> Refusal:
    return Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group_id}.")


def fenced(kind: Kind, epoch: int, known: int) -> Refusal:
    """The member's epoch is not the one that the coordinator knows."""
    size = "greater" if epoch > known else "smaller"
    text = (
        f"The {kind} group member has a {size} member epoch ({epoch}) than the one known by the group coordinator "
        f"({known}). The member must abandon all its partitions and rejoin."
    )
    return Refusal(ErrorCode.FENCED_MEMBER_EPOCH, text)
