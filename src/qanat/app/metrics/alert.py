"""An alert: when it fires, what that means, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["critical", "warning"]
RUNBOOKS = "docs/operating/alerts.md"
"""Where the runbooks are in the source tree; `qanat metrics rules --runbooks` names an address."""


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert and its runbook."""

    name: str
    expression: str
    lasts: str
    """How long it must hold before anybody is told."""
    severity: Severity
    summary: str
    """One line, with the labels that matter."""
    means: str
    look: tuple[str, ...]
    """What to look at, in this order."""
    do: tuple[str, ...]
    """What to do, the likeliest remedy first."""

    @property
    def anchor(self) -> str:
        """The heading of its runbook."""
        return self.name.lower()
