"""Health of a consumer application, and why: it serves what it has, even where it receives nothing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Status(Enum):
    """HEALTHY: receives and serves; DEGRADED: serves what it has; UNHEALTHY: cannot store, or cannot answer.

    What is damaged is DEGRADED, too: all else is served.
    """

    HEALTHY = "HEALTHY"
    DEGRADED = "DEGRADED"
    UNHEALTHY = "UNHEALTHY"


@dataclass(slots=True)
class Condition:
    """What the parts of an application report about themselves; empty texts are good news."""

    is_connected: bool = False
    connection: str = "it has not connected yet"
    """Why nothing is received."""
    storage: str = ""
    """Why nothing is stored; retried where it can pass."""
    unindexed: int = 0
    """Offsets that queries do not find yet."""

    damage: str = ""
    """What the disk has lost of what is served."""

    def stored(self) -> None:
        self.storage = ""

    def report(self) -> tuple[Status, list[str]]:
        """The status, and the reasons for it."""
        reasons = []
        if self.storage:
            reasons.append(self.storage)
        if self.unindexed:
            reasons.append(f"the index is being built: {self.unindexed} offsets are left")
        if reasons:
            status = Status.UNHEALTHY
        else:
            status = Status.HEALTHY if self.is_connected and not self.damage else Status.DEGRADED
        if self.damage:
            reasons.append(self.damage)
        if not self.is_connected:
            reasons.append(f"nothing is received: {self.connection}")
        return status, reasons
