"""The rules by which a record is late or from the future."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rules:
    """How far the time of a measurement may be from its timestamp in the log; the texts are for reasons."""

    lateness_ms: int
    ahead_ms: int
    lateness: str
    ahead: str
