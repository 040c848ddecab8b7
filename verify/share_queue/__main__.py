"""`python -m verify.share_queue`: the long run; exits with 1 where a record is lost, doubled or locked too long."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from verify.share_queue.conductor import LOCK_S, work_under_kills

_FETCH_S = 10.0
"""How long a busy machine may take to deliver an available record again."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Empty a queue with eight share consumers while some are killed.")
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--kills", type=int, default=30, help="workers to kill")
    parser.add_argument("--broker-kills", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with TemporaryDirectory(prefix="share-queue-") as folder:
        outcome = work_under_kills(Path(folder), given.records, given.kills, given.broker_kills, given.seed)
    judgement = outcome.judgement
    problems, wait_s = judgement.problems(), judgement.longest_wait_s()
    if wait_s > LOCK_S + _FETCH_S:
        problems.append(f"a record stayed locked for {wait_s:.1f} s by a worker that was gone")
    events = ", ".join(f"{count} x {what}" for what, count in outcome.done.items())
    print(f"seed {given.seed}: {given.records} records in {outcome.seconds:.0f} s; {events}")
    print(f"  {len(judgement.letters)} dead letters, {judgement.late_acknowledgements()} late acknowledgements")
    print(f"  records of a killed worker were delivered again within {wait_s:.2f} s; locks are {LOCK_S:g} s")
    for problem in problems:
        print(f"  {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
