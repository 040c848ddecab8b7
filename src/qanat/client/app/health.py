"""Health of a worker: well, or not, and why. Pure: time is an argument.

A part (one handler's loop) reports what it does; it is ill where a fault lasts longer than a limit, or where it ended.
"""

from __future__ import annotations

from dataclasses import dataclass, field

STALL_TIMEOUT_S = 10.0
"""A fault that lasts longer makes a worker ill: shorter ones are a broker's restart."""


@dataclass(slots=True)
class Part:
    """The health of one handler's loop."""

    name: str
    fault: str = ""
    """The last fault; empty when the part has recovered."""
    since_s: float = 0.0
    """When the fault began."""
    is_over: bool = False
    """Whether the loop has ended, although the worker runs."""
    paused: dict[str, str] = field(default_factory=dict)
    """Places where it has paused until it is resumed, and why."""

    def failed(self, reason: str, now_s: float) -> None:
        if not self.fault:
            self.since_s = now_s
        self.fault = reason

    def recovered(self) -> None:
        self.fault = ""

    def reason(self, now_s: float) -> str:
        """Why it is ill; empty where it is well."""
        if self.is_over:
            return f"{self.name} has ended: {self.fault or 'without a reason'}"
        if self.paused:
            return f"{self.name} is paused at {'; '.join(f'{at}: {why}' for at, why in self.paused.items())}"
        if self.fault and now_s - self.since_s >= STALL_TIMEOUT_S:
            return f"{self.name} makes no progress for {now_s - self.since_s:.0f} s: {self.fault}"
        return ""


@dataclass(frozen=True, slots=True)
class Health:
    """The health of a worker: `bool(app.health())`."""

    is_well: bool
    reasons: tuple[str, ...] = field(default=())

    def __bool__(self) -> bool:
        return self.is_well

    @property
    def reason(self) -> str:
        """Why it is ill, in one line; "ok" where it is well."""
        return "; ".join(self.reasons) or "ok"


def health_of(parts: list[Part], now_s: float) -> Health:
    reasons = tuple(reason for part in parts if (reason := part.reason(now_s)))
    return Health(not reasons, reasons)
