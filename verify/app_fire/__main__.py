"""`python -m verify.app_fire`: exits with 1 where a check fails, and with 3 where Kafka is not available."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import mkdtemp

from tools.kafka_jars import JarsUnavailableError

from verify.app_fire.conductor import HANDLERS, Outcome, work_under_fire
from verify.app_fire.sides import SIDES, Side, brokers_of

EXIT_FAILED, EXIT_NO_KAFKA = 1, 3


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m verify.app_fire", description="An app of qanat.client under fire.")
    parser.add_argument("--on", action="append", choices=SIDES, help="whose brokers; all where it is not given")
    parser.add_argument("--records", type=int, default=8_000)
    parser.add_argument("--faults", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    problems = 0
    for side in given.on or SIDES:
        try:
            problems += _run(side, given.records, given.faults, given.seed)
        except JarsUnavailableError as fault:
            print(f"{side}: {fault}", file=sys.stderr)
            return EXIT_NO_KAFKA
    return EXIT_FAILED if problems else 0


def _run(side: Side, records: int, faults: int, seed: int) -> int:
    folder = Path(mkdtemp(prefix=f"app-fire-{side}-"))
    with brokers_of(side, folder) as brokers:
        outcome = work_under_fire(folder, brokers, records, faults, seed)
    problems = outcome.problems()
    print(f"{side}, seed {seed}: {records} orders in {outcome.seconds:.0f} s; {described(outcome)}")
    for handled in HANDLERS:
        print(f"  {handled.name}: {outcome.evidence.repeated(handled.name)} records ended more than once")
    for problem in problems:
        print(f"  {problem}")
    print(f"  {len(problems)} problems; journals and logs are in {folder}", flush=True)
    return len(problems)


def described(outcome: Outcome) -> str:
    return ", ".join(f"{count} x {what}" for what, count in sorted(outcome.done.items()))


if __name__ == "__main__":
    sys.exit(main())
