"""`python -m verify.clusters.bug_bank`: put every bug of the bank into the product, and demand that a run finds it.

    python -m verify.clusters.bug_bank                       all bugs
    python -m verify.clusters.bug_bank never_truncate ...    these bugs
    python -m verify.clusters.bug_bank --most 1000           with up to 1,000 runs for each

Exit status 1 where a bug was not found. The product is interpreted, so that a bug can replace any of its functions.
"""

from __future__ import annotations

import argparse
import sys
import time

from verify.interpreted import import_interpreted

import_interpreted()

from verify.clusters.bug_bank.bank import BUGS, look_for  # noqa: E402 - what it imports is interpreted

_MOST_SEEDS = 1000


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    missed = []
    wanted = [bug for bug in BUGS if not options.bugs or bug.name in options.bugs]
    for bug in wanted:
        started = time.monotonic()
        found = look_for(bug, options.most, options.first or 1)
        seconds = time.monotonic() - started
        if found.report is None:
            missed.append(bug.name)
            print(f"{bug.name} ({bug.corner_case}): NOT FOUND in {found.seeds} runs, {seconds:.0f} s", flush=True)
        else:
            print(
                f"{bug.name} ({bug.corner_case}): seed {found.report.seed}, after {found.seeds} runs and "
                f"{seconds:.0f} s: {found.report.problems[0][:120]}",
                flush=True,
            )
    print(f"{len(wanted) - len(missed)} of {len(wanted)} bugs found")
    return 1 if missed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m verify.clusters.bug_bank", description="Find known bugs.")
    parser.add_argument("bugs", nargs="*", choices=[[], *(bug.name for bug in BUGS)], help="which (default all)")
    parser.add_argument("--most", type=int, default=_MOST_SEEDS, help="runs to try for each")
    parser.add_argument("--first", type=int, help="the first seed to try")
    return parser


if __name__ == "__main__":
    sys.exit(main())
