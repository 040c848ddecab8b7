"""`python -m bench.client`: every figure of the client, by turns in one run; see the package."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from bench.client import consume, handled, handlers, idle, produce, queues
from bench.client.bars import Bar, show

EXIT_NOT_MET = 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.client", description="The Python client beside others.")
    parser.add_argument("--scale", type=float, default=1.0, help="records, as a multiple of the default")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", action="append", choices=list(SECTIONS), help="this part; may be repeated")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a bar is not met")
    chosen = parser.parse_args()
    found: list[Bar] = []
    for name in chosen.only or SECTIONS:
        print(name, flush=True)
        found += SECTIONS[name](chosen.scale, chosen.rounds)
    print("bars")
    missed = show(found)
    return EXIT_NOT_MET if chosen.check and missed else 0


SECTIONS: dict[str, Callable[[float, int], list[Bar]]] = {
    "produce": lambda scale, rounds: produce.bars(int(100_000 * scale), rounds),
    "consume": lambda scale, rounds: consume.bars(int(400_000 * scale), rounds),
    "handlers": lambda _, rounds: handlers.bars(rounds),
    "handled": lambda scale, rounds: handled.bars(int(100_000 * scale), rounds),
    "queues": lambda scale, rounds: queues.bars(int(100_000 * scale), rounds),
    "idle": lambda scale, _: idle.bars(max(5.0, 20.0 * scale)),
}


if __name__ == "__main__":
    sys.exit(main())
