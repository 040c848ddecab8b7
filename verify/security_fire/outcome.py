"""The outcome of one part of a run."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from verify.security_fire.clients import Errors


@dataclass(frozen=True)
class Outcome:
    """What was done, and what is wrong."""

    name: str
    records: int
    done: Counter[str]
    errors: Errors
    problems: list[str]
    seconds: float

    def report(self) -> str:
        events = ", ".join(f"{count} x {what}" for what, count in sorted(self.done.items()))
        errors = f"{self.errors.retriable} retriable errors of clients"
        changing = f"{self.errors.changing} logins during a change of their password"
        lines = [
            f"{self.name}: {self.records} records acknowledged in {self.seconds:.0f} s; {events}",
            f"  {errors}, {changing}; {len(self.problems) or 'no'} problems",
        ]
        return "\n".join([*lines, *(f"  {problem}" for problem in self.problems[:20])])
