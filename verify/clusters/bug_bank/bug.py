"""A bug of the bank: how it is put into the product and taken out again."""

from __future__ import annotations

import inspect
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
        """Replace a part of a module or class; a class may inherit it.

        A function must take the arguments of the one before: a call that fails would be found by any run.
        """
        assert hasattr(owner, name), f"{owner} has no {name}"
        assert _takes_the_same(getattr(owner, name), part), f"{name} of {owner} takes other arguments"
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


def _takes_the_same(before: object, part: object) -> bool:
    if not inspect.isfunction(before) or not inspect.isfunction(part):
        return True
    parameters = inspect.signature(before).parameters.values()
    by_place = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    by_name = {one.name: None for one in parameters if one.kind is one.KEYWORD_ONLY}
    try:
        inspect.signature(part).bind(*by_place, **by_name)
    except TypeError:
        return False
    return True


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
