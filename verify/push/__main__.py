"""`python -m verify.push --seeds 1-2000`: a sweep; `refreshes`: one of refreshes; `bugs`: the bug banks."""

from __future__ import annotations

import argparse
import sys

from verify.push.bug_bank import BUGS, search
from verify.push.model import PushMismatchError
from verify.push.refresh_bugs import REFRESH_BUGS, search_refreshes
from verify.push.refresh_run import RefreshRun
from verify.push.run import PushRun


def main() -> int:
    parser = argparse.ArgumentParser(prog="verify.push")
    parser.add_argument("what", nargs="?", choices=["runs", "refreshes", "bugs"], default="runs")
    parser.add_argument("--seeds", default="1-500")
    arguments = parser.parse_args()
    if arguments.what == "bugs":
        return _bugs()
    return _runs(arguments.seeds, arguments.what)


def _runs(seeds: str, what: str) -> int:
    first, _, last = seeds.partition("-")
    faults: dict[str, int] = {}
    anomalies = 0
    wanted = range(int(first), int(last or first) + 1)
    for seed in wanted:
        run: PushRun | RefreshRun = PushRun(seed) if what == "runs" else RefreshRun(seed)
        try:
            run.run()
        except PushMismatchError as fault:
            anomalies += 1
            print(f"seed {seed}: {fault}  (python -m verify.push {what} --seeds {seed})")
        for name, count in run.faults.items():
            faults[name] = faults.get(name, 0) + count
    print(f"{len(wanted)} seeds, {anomalies} anomalies; " + ", ".join(f"{n} {name}" for name, n in faults.items()))
    return 1 if anomalies else 0


def _bugs() -> int:
    missed = 0
    for bug in BUGS:
        seed = search(bug, 500)
        missed += not seed
        print(f"{bug.name}: " + (f"found by seed {seed}" if seed else "NOT FOUND"))
    for bug in REFRESH_BUGS:
        seed = search_refreshes(bug, 500)
        missed += not seed
        print(f"{bug.name}: " + (f"found by seed {seed} of refreshes" if seed else "NOT FOUND"))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
