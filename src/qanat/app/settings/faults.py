"""Errors of settings: a node that starts raises the first one, `qanat config check` collects all.

with faults:
    value = read(one)
"""

from __future__ import annotations

from types import TracebackType

from qanat.model.errors import InvalidSettingError


class Faults:
    """A context that lets an error pass, or notes it and goes on after its block."""

    def __init__(self, *, collects: bool = False) -> None:
        self._collects = collects
        self.found: list[str] = []

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not self._collects or not isinstance(fault, InvalidSettingError):
            return False
        self.found.append(str(fault))
        return True
