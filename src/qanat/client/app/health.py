"""Health of a worker: well, or not, and why. Pure: time is an argument.

A part (one handler's loop) is ill

1. where it has paused, until it is resumed;
2. where a fault of its consumer or of its commits lasts longer than `STALL_TIMEOUT_S`;
3. where a record gets no further: it has failed again and again for `FAILING_S`, its dead letter cannot be written, or
   its handler goes on `STALL_TIMEOUT_S` after its `timeout`.

A handler without a `timeout` may take as long as it likes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

STALL_TIMEOUT_S = 10.0
"""A fault that lasts longer makes a worker ill: shorter ones are a broker's restart."""
FAILING_S = 60.0
"""A record that fails again so long after its first failure makes a worker ill."""
CONSUMER, COMMITS = "consumer", "commits"
"""Where a fault comes from: polls that succeed say nothing of commits."""


@dataclass(frozen=True, slots=True)
class Stall:
    """A record that gets no further; it makes its part ill from a time on, and until another."""

    from_s: float
    reason: str
    until_s: float = float("inf")


@dataclass(slots=True)
class Part:
    """The health of one handler's loop."""

    name: str
    faults: dict[str, tuple[float, str]] = field(default_factory=dict)
    """Faults that last, by where they come from: since when, and the last reason."""
    paused: dict[str, str] = field(default_factory=dict)
    """Places where it has paused until it is resumed, and why."""
    stalls: dict[object, Stall] = field(default_factory=dict)
    """Records that get no further, by whatever tells them apart."""

    def failed(self, reason: str, now_s: float, source: str = CONSUMER) -> None:
        since_s, _ = self.faults.get(source, (now_s, ""))
        self.faults[source] = since_s, reason

    def recovered(self, source: str = CONSUMER) -> None:
        self.faults.pop(source, None)

    def stalled(self, key: object, stall: Stall) -> None:
        self.stalls[key] = stall

    def moved(self, key: object) -> None:
        """A record is done, or belongs to somebody else."""
        self.stalls.pop(key, None)

    def reason(self, now_s: float) -> str:
        """Why it is ill; empty where it is well. From any thread, so what is walked through are copies."""
        if self.paused:
            return f"{self.name} is paused at {'; '.join(f'{at}: {why}' for at, why in list(self.paused.items()))}"
        for since_s, fault in list(self.faults.values()):
            if now_s - since_s >= STALL_TIMEOUT_S:
                return f"{self.name} makes no progress for {now_s - since_s:.0f} s: {fault}"
        ill = [one for one in list(self.stalls.values()) if one.from_s <= now_s < one.until_s]
        if ill:
            more = f", and {len(ill) - 1} more records" if len(ill) > 1 else ""
            return f"{self.name} makes no progress: {min(ill, key=lambda one: one.from_s).reason}{more}"
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
