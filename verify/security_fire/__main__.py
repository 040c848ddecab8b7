"""`python -m verify.security_fire`: rotations and a lockdown under load.

    python -m verify.security_fire                       both, about three minutes
    python -m verify.security_fire --seconds 600         rotations for ten minutes
    python -m verify.security_fire --only lockdown       one of them

Exit status 1 where a record is lost, or a client got an error that retrying does not help.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import mkdtemp

from verify.security_fire.lockdown import Lockdown
from verify.security_fire.rotation import Rotation


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m verify.security_fire", description="Security under fire.")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long secrets are rotated")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=("rotation", "lockdown"))
    parser.add_argument("--folder", type=Path, help="where data and logs are kept (default: a new one)")
    given = parser.parse_args(arguments)
    folder = given.folder or Path(mkdtemp(prefix="security-fire-"))
    folder.mkdir(parents=True, exist_ok=True)
    print(f"data and logs are in {folder}", flush=True)
    outcomes = []
    if given.only != "lockdown":
        outcomes.append(Rotation(folder, given.seed).run(given.seconds))
        print(outcomes[-1].report(), flush=True)
    if given.only != "rotation":
        outcomes.append(Lockdown(folder).run())
        print(outcomes[-1].report(), flush=True)
    return 1 if any(outcome.problems for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
