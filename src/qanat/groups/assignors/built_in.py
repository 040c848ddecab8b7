"""The assignors that come with Qanat, by name."""

from __future__ import annotations

from collections.abc import Iterable

from qanat.groups.assignors.assignor import Assignor
from qanat.groups.assignors.range import RangeAssignor
from qanat.groups.assignors.uniform import UniformAssignor

NAMES = ("uniform", "range")


def built_in(names: Iterable[str] = NAMES) -> dict[str, Assignor]:
    """Those of these names, in their order; packages may bring others."""
    ours: dict[str, Assignor] = {"uniform": UniformAssignor(), "range": RangeAssignor()}
    return {name: ours[name] for name in names if name in ours} or ours
