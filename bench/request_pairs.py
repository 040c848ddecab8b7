"""Two trees compared by `bench.request`, alternating: the ratio of their CPU time per request.

    python -m bench.request_pairs OTHER/src                           this tree against another one
    python -m bench.request_pairs OTHER/src --pairs 21 -- --kind fetch
    python -m bench.request_pairs OTHER/src --pairs 21 -- --together 1        one request in each read
    python -m bench.request_pairs . --other-arguments="" -- --authorized    this tree with an option against without
    python -m bench.request_pairs OTHER/src --instructions            instructions by valgrind: exact on a busy machine

Each pair is two fresh processes, one after the other, in an order that alternates. The result is the median of the
pairs' ratios with its 95 % interval, by order statistics: no shape of the distribution is assumed.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import shlex
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.request import TOGETHER

ROOT = Path(__file__).resolve().parents[1]
_AT_BEST = re.compile(r"([0-9.]+) us of CPU time per request at best, ([0-9.]+) in the middle")
_COLLECTED = re.compile(r"Collected : ([0-9]+)")
_READS = (100, 500)
_PAIRS = 9
_LEAST_PAIRS = 6
"""With fewer, no interval of order statistics covers 95 %."""


def measure(source: Path, arguments: Sequence[str]) -> float:
    """Microseconds of CPU time per request, at the best of the rounds of one process."""
    environment = {**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{ROOT}"}
    ran = subprocess.run(
        [sys.executable, "-m", "bench.request", *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    found = _AT_BEST.search(ran.stdout)
    if found is None:
        raise SystemExit(f"bench.request failed on {source}:\n{ran.stderr}")
    return float(found.group(1))


def count_instructions(source: Path, arguments: Sequence[str]) -> float:
    """Instructions per request, start and end of the process left out; system calls count as nothing.

    Requests of idempotent and transactional producers are made on the way, and count.
    """
    few, many = (_instructions(source, [*arguments, "--reads", str(reads)]) for reads in _READS)
    return (many - few) / ((_READS[1] - _READS[0]) * together(arguments))


def together(arguments: Sequence[str]) -> int:
    """How many requests `bench.request` puts into one read."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--together", type=int, default=TOGETHER)
    return int(parser.parse_known_args(list(arguments))[0].together)


def _instructions(source: Path, arguments: Sequence[str]) -> int:
    environment = {**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{ROOT}", "PYTHONHASHSEED": "0"}
    counting = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    try:
        ran = subprocess.run(
            [*counting, sys.executable, "-m", "bench.request", *arguments],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=600,
        )
    except FileNotFoundError:
        raise SystemExit("there is no valgrind here: install it (Debian: apt install valgrind)") from None
    found = _COLLECTED.search(ran.stderr)
    if ran.returncode or found is None:
        raise SystemExit(f"bench.request failed on {source}:\n{ran.stderr}")
    return int(found.group(1))


def interval(ratios: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the median."""
    count, ordered = len(ratios), sorted(ratios)
    tail, place = 0.5**count, 0
    while tail + math.comb(count, place + 1) * 0.5**count <= 0.025:
        place += 1
        tail += math.comb(count, place) * 0.5**count
    return ordered[place], ordered[count - 1 - place]


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser("python -m bench.request_pairs", description="Two trees, one request, by turns.")
    parser.add_argument("other", type=Path, help="the sources of the other tree, its `src`")
    parser.add_argument("--pairs", type=int, default=_PAIRS)
    parser.add_argument("--instructions", action="store_true", help="count instructions by valgrind, once")
    parser.add_argument("--other-arguments", help="what bench.request gets in the other tree, if not the same")
    parser.add_argument("rest", nargs="*", metavar="-- ARGUMENT", help="what bench.request gets")
    split = arguments.index("--") if "--" in arguments else len(arguments)
    given = parser.parse_args(arguments[:split])
    given.rest = arguments[split + 1 :]
    if given.pairs < _LEAST_PAIRS:
        parser.error(f"--pairs must be {_LEAST_PAIRS} or more: fewer give no interval")
    theirs_given = given.rest if given.other_arguments is None else shlex.split(given.other_arguments)
    other = given.other.resolve()
    if given.instructions:
        here, there = count_instructions(ROOT / "src", given.rest), count_instructions(other, theirs_given)
        print(f"{here:,.0f} instructions here, {there:,.0f} there; ratio {here / there:.3f}")
        return
    ours, theirs = [], []
    for pair in range(given.pairs):
        for is_ours in (True, False) if pair % 2 else (False, True):
            if is_ours:
                ours.append(measure(ROOT / "src", given.rest))
            else:
                theirs.append(measure(other, theirs_given))
    ratios = [one / other for one, other in zip(ours, theirs, strict=True)]
    low, high = interval(ratios)
    print(
        f"{statistics.median(ours):.2f} us here, {statistics.median(theirs):.2f} us there, medians of {given.pairs}; "
        f"ratio {statistics.median(ratios):.3f}, 95 % interval {low:.3f} to {high:.3f}"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
