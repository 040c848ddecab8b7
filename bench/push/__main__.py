"""`python -m bench.push`: every figure of push in one run, and which limits are met; see the package."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.client.bars import Bar, show
from bench.clients import DriverFailedError
from bench.push import acl, idle, latency, rates, slow
from qanat.app.bench import machine
from qanat.app.bench.workspace import BenchRefusedError, workspace

NEEDED_BYTES = 10**9
EXIT_NOT_MET, EXIT_REFUSED = 1, 2


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.push", description="Push beside NATS and Kafka consumers.")
    parser.add_argument("--quick", action="store_true", help="measure less: a few minutes")
    parser.add_argument("--only", action="append", choices=list(SECTIONS), help="this part; may be repeated")
    parser.add_argument("--dir", type=Path, help="folder on the disk to measure (default: the current one)")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a limit is not met")
    asked = parser.parse_args(arguments)
    found: list[Bar] = []
    try:
        with workspace(asked.dir or Path.cwd(), NEEDED_BYTES) as folder:
            print(f"{machine.describe(folder)}; load {os.getloadavg()[0]:.1f} at the start", flush=True)
            for name in asked.only or SECTIONS:
                print(name, flush=True)
                found += SECTIONS[name](folder, asked.quick)
    except (BenchRefusedError, DriverFailedError) as fault:
        print(f"bench.push: {fault}", file=sys.stderr)
        return EXIT_REFUSED
    print(f"limits (load {os.getloadavg()[0]:.1f} at the end)")
    missed = show(found)
    return EXIT_NOT_MET if asked.check and missed else 0


SECTIONS: dict[str, Callable[[Path, bool], list[Bar]]] = {
    "latency": lambda folder, quick: latency.bars(folder, 5.0 if quick else 10.0, 3 if quick else 5),
    "rates": lambda folder, quick: rates.bars(folder, 200_000 if quick else 600_000, 3 if quick else 5),
    "idle": lambda folder, _: idle.bars(folder),
    "slow": lambda folder, quick: slow.bars(folder, 10.0 if quick else 30.0, 3 if quick else 5),
    "acl": lambda folder, quick: acl.bars(folder, 3 if quick else 5),
}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
