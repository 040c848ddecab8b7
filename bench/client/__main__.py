"""`python -m bench.client`: see the package."""

from __future__ import annotations

import argparse

from bench.client.broker import running
from bench.client.produce import CLIENTS, TOPIC, Load, measure


def main() -> None:
    parser = argparse.ArgumentParser(description="The Python client beside others.")
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--client", action="append", choices=list(CLIENTS))
    parser.add_argument("--quick", action="store_true", help="only 100 bytes without compression")
    chosen = parser.parse_args()
    loads = {"100 B": Load(chosen.count, 100)}
    if not chosen.quick:
        loads["100 B, keys"] = Load(chosen.count, 100, has_keys=True)
        loads["100 B, lz4"] = Load(chosen.count, 100, "lz4")
        loads["1 KB, none"] = Load(chosen.count // 4, 1000)
        loads["1 KB, lz4"] = Load(chosen.count // 4, 1000, "lz4")
        loads["1 KB, zstd"] = Load(chosen.count // 4, 1000, "zstd")
    for title, load in loads.items():
        with running(TOPIC) as address:
            print(title)
            for name, turns in measure(address, load, chosen.rounds, chosen.client or list(CLIENTS)).items():
                print(f"  {name:22s} {turns}", flush=True)


if __name__ == "__main__":
    main()
