"""What the demonstration says must be so."""

from __future__ import annotations

from qanat.model.errors import QanatError


class ClaimError(QanatError):
    """Something that the demonstration claims did not hold."""


def claim(holds: bool, what: str) -> None:
    if not holds:
        raise ClaimError(f"this should hold and does not: {what}")
