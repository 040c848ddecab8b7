"""A bug of the bank: how it is put into the product and taken out again."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from msgspec import Struct

from verify.clusters.plan import Plan

INHERITED = object()
"""In place of a part that a class inherits."""


class Patches:
    """Replacements of parts of the product, undone in reverse order at the end."""

    def __init__(self) -> None:
        self._before: list[tuple[object, str, object]] = []

    def put(self, owner: object, name: str, part: object) -> None:
        """Replace a part of a module or class; a class may inherit it."""
        assert hasattr(owner, name), f"{owner} has no {name}"
        self._before.append((owner, name, vars(owner).get(name, INHERITED)))
        setattr(owner, name, part)

    def __enter__(self) -> Patches:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._before:
            owner, name, part = self._before.pop()
            if part is INHERITED:
                delattr(owner, name)
            else:
                setattr(owner, name, part)


class Bug(Struct, frozen=True):
    """One bug, as a patch of the product."""

    corner_case: str
    """The corner case (C) or goal (T) of the checklist that it breaks."""
    put_in: Callable[[Patches], None]
    found_at: int
    """The first seed that showed it in the last search; 0 where none did."""
    may_show: Callable[[Plan], bool]
    """Whether a plan can show the bug; the search skips other seeds."""

    @property
    def name(self) -> str:
        return self.put_in.__name__
