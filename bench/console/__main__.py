"""`python -m bench.console`: the console beside its bars; see the package."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tools.toolchains.registries import MissingToolError

from bench.client.bars import show
from bench.console import browser, costs, lag
from bench.console.stage import stage, until_collected


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.console", description="The web console beside its bars.")
    parser.add_argument("--topics", type=int, default=5000)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=20.0, help="how long ten tabs are open")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a bar is not met")
    given = parser.parse_args()
    if given.topics < 10 or given.groups < 50:
        parser.error("--topics must be at least 10, and --groups at least 50")
    with TemporaryDirectory(prefix="bench-console-") as folder:
        print(f"making {given.topics:,} topics and {given.groups:,} groups", flush=True)
        with stage(Path(folder) / "data", given.topics, given.groups) as made:
            until_collected(made)
            try:
                found = browser.bars(made, given.topics, given.groups)
            except MissingToolError as reason:
                print(f"the browser's part is left out: {reason}")
                found = []
            found += [*costs.bars(made, given.seconds), *lag.bars(made)]
    missed = show(found)
    return 1 if given.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
