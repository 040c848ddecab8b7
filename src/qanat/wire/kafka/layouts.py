"""Shared parts of the generated modules: the all-zero id, and tables of layouts by version."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")

ZERO_UUID = bytes(16)


def by_version(starts: dict[int, T], last: int) -> dict[int, T]:
    """From "this from version n on" to a value for each version, through `last`.

    >>> by_version({0: "old", 2: "new"}, 3)
    {0: 'old', 1: 'old', 2: 'new', 3: 'new'}
    """
    versions = sorted(starts)
    ends = [*versions[1:], last + 1]
    return {version: starts[start] for start, end in zip(versions, ends, strict=True) for version in range(start, end)}
