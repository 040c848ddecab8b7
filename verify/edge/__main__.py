"""`python -m verify.edge --seeds 1-5000`: a sweep; `python -m verify.edge bugs`: the bug bank."""

from __future__ import annotations

import argparse
import sys

from verify.edge.run import EdgeRun
from verify.edge.world import EdgeMismatchError


def main() -> int:
    parser = argparse.ArgumentParser(prog="verify.edge")
    parser.add_argument("what", nargs="?", choices=["runs", "bugs"], default="runs")
    parser.add_argument("--seeds", default="1-500")
    arguments = parser.parse_args()
    return _bugs() if arguments.what == "bugs" else _runs(arguments.seeds)


def _runs(seeds: str) -> int:
    first, _, last = seeds.partition("-")
    faults: dict[str, int] = {}
    anomalies = batches = records = 0
    wanted = range(int(first), int(last or first) + 1)
    for seed in wanted:
        run = EdgeRun(seed)
        try:
            run.run()
        except EdgeMismatchError as fault:
            anomalies += 1
            print(f"seed {seed}: {fault}  (python -m verify.edge --seeds {seed})")
        for name, count in run.world.faults.items():
            faults[name] = faults.get(name, 0) + count
        batches += sum(len(log.batches) for child in run.children.values() for log in child.disk.logs)
        records += sum(len(target.records) for target in run.root.targets.values())
    print(f"{len(wanted)} seeds, {anomalies} anomalies; {batches} batches at children, {records} records at the root")
    print(", ".join(f"{count} {name}" for name, count in sorted(faults.items())))
    return 1 if anomalies else 0


def _bugs() -> int:
    from verify.edge.bug_bank import BUGS, search

    missed = 0
    for bug in BUGS:
        seed = search(bug, 500)
        missed += not seed
        print(f"{bug.name}: " + (f"found by seed {seed}" if seed else "NOT FOUND"))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
