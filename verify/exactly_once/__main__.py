"""`python -m verify.exactly_once`: the long run of the copy; exits with 1 where a record is missing or doubled."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from verify.exactly_once.conductor import copy_under_kills


def main() -> int:
    parser = argparse.ArgumentParser(description="Copy records in transactions while copier and broker are killed.")
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--batch", type=int, default=750, help="records in a transaction")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with TemporaryDirectory(prefix="exactly-once-") as folder:
        outcome = copy_under_kills(Path(folder), given.records, given.batch, given.kills, given.seed)
    problems = outcome.problems(given.records)
    kills = ", ".join(f"{count} x {what}" for what, count in outcome.kills.items())
    print(f"seed {given.seed}: {len(outcome.copies)} of {given.records} records in {outcome.seconds:.0f} s; {kills}")
    for problem in problems:
        print(f"  {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
