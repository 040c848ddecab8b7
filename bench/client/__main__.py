"""`python -m bench.client`: every figure of the client, by turns in one run; see the package."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.client import consume, handled, handlers, idle, imports, produce, queues
from bench.client.bars import Bar, show
from bench.client.page import Run, page, rivals
from qanat.app.bench import machine

EXIT_NOT_MET = 1
QUICK_SCALE, QUICK_ROUNDS = 0.5, 3
CONSUMED_MIN = 200_000
"""Of fewer records, Arrow's first batch may have all, and nothing is left to measure."""


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.client", description="The Python client beside others.")
    parser.add_argument("--quick", action="store_true", help="half of the records in three rounds: a few minutes")
    parser.add_argument("--scale", type=float, help="records, as a multiple of the default")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--only", action="append", choices=list(SECTIONS), help="this part; may be repeated")
    parser.add_argument("--page", type=Path, help="write the results there, as a page; not with --only")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a bar is not met")
    asked = parser.parse_args(arguments)
    scale = asked.scale or (QUICK_SCALE if asked.quick else 1.0)
    rounds = asked.rounds or (QUICK_ROUNDS if asked.quick else 5)
    began, load = time.monotonic(), os.getloadavg()[0]
    run = Run("")
    for name in asked.only or SECTIONS:
        print(name, flush=True)
        with run.section(name):
            run.bars[name] = SECTIONS[name](scale, rounds)
    minutes = (time.monotonic() - began) / 60
    run.conditions = (
        f"{time.strftime('%Y-%m-%d')}, {_machine()}, {rivals()}; load {load:.1f} at the start and "
        f"{os.getloadavg()[0]:.1f} at the end of {minutes:.1f} minutes"
    )
    print(f"bars ({run.conditions})")
    missed = show(run.every)
    if asked.page is not None and not asked.only:
        asked.page.write_text(page(run))
        print(f"written to {asked.page}")
    return EXIT_NOT_MET if asked.check and missed else 0


def _machine() -> str:
    found = machine.describe(Path.cwd())
    return ", ".join(f"{name} {found[name]}" for name in ("processor", "memory", "kernel", "per-record core"))


SECTIONS: dict[str, Callable[[float, int], list[Bar]]] = {
    "produce": lambda scale, rounds: produce.bars(int(100_000 * scale), rounds),
    "consume": lambda scale, rounds: consume.bars(max(CONSUMED_MIN, int(400_000 * scale)), rounds),
    "handlers": lambda _, rounds: handlers.bars(rounds),
    "handled": lambda scale, rounds: handled.bars(int(100_000 * scale), rounds),
    "queues": lambda scale, rounds: queues.bars(int(100_000 * scale), rounds),
    "imports": lambda _, rounds: imports.bars(3 * rounds),
    "idle": lambda scale, _: idle.bars(max(5.0, 20.0 * scale)),
}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
