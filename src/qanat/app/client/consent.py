"""`--yes` and `--dry-run`: the operator's consent to a change that cannot be undone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Consent:
    """The operator's consent to a change that cannot be undone."""

    yes: Annotated[bool, Parameter(name=["--yes", "-y", "--execute"], negative="")] = False
    """Do it."""
    dry_run: Annotated[bool, Parameter(negative="")] = False
    """Only say what would be done."""

    @property
    def is_confirmed(self) -> bool:
        return self.yes and not self.dry_run

    def report_withheld(self, what: str) -> int:
        """Print that nothing was done; returns the exit code: 0 for a dry run, 1 otherwise."""
        import sys

        if self.dry_run:
            return 0
        print(f"qanat: nothing was {what}: add --yes to do it", file=sys.stderr)
        return 1


UNDECIDED = Consent()
