"""The demonstration's claims: checks that fail the run."""

from __future__ import annotations

from qanat.model.errors import QanatError


class ClaimError(QanatError):
    """A claim of the demonstration does not hold."""


def claim(holds: bool, what: str) -> None:
    if not holds:
        raise ClaimError(f"this should hold and does not: {what}")
