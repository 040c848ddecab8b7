"""`python -m verify.spark_fire`: the long run; exits with 1 where a record is missing, doubled or out of order."""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from tools.machines import THIS, another_machine
from tools.spark_cluster import standalone_cluster

from verify.spark_fire.conductor import copy_under_kills


def main() -> int:
    parser = argparse.ArgumentParser(description="Copy with Spark while driver, executors and broker are killed.")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=20_000, help="records in a micro-batch")
    parser.add_argument("--kills", type=int, default=4, help="of each: driver, executor, worker, broker")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--local", action="store_true", help="no cluster: executors inside the driver")
    parser.add_argument("--elsewhere", action="store_true", help="the broker in a network namespace (Linux, root)")
    given = parser.parse_args()
    kinds = ["driver", "worker", "broker"] if given.local else ["driver", "executor", "worker", "broker"]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="spark-fire-")))
        master = "local[2,20]" if given.local else stack.enter_context(standalone_cluster(folder))
        kills = kinds * given.kills
        machine = stack.enter_context(another_machine()) if given.elsewhere else THIS
        outcome = copy_under_kills(folder, master, given.records, given.batch, kills, given.seed, _show, machine)
    killed = ", ".join(f"{count} x {what}" for what, count in sorted(outcome.kills.items()))
    print(
        f"seed {given.seed}: {given.records:,} records to a topic and to a lake in {outcome.batches} batches and "
        f"{outcome.seconds:.0f} s; killed: {killed}"
    )
    for problem in outcome.problems:
        print(f"  {problem}")
    print("every record once, in order" if not outcome.problems else "FAILED")
    return 1 if outcome.problems else 0


def _show(text: str) -> None:
    print(f"spark fire: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
