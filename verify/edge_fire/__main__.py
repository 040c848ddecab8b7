"""`python -m verify.edge_fire --seconds 3600`: exits with 1 where something is wrong, with 3 without namespaces."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import mkdtemp

from verify.chaos.network import Network, NetworkUnavailableError
from verify.edge_fire.run import Fire

EXIT_FAILED, EXIT_NO_NETWORK = 1, 3


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m verify.edge_fire", description="A tree of brokers under fire.")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--per-second", type=float, default=100, help="records written at the root")
    given = parser.parse_args()
    folder = Path(mkdtemp(prefix="edge-fire-"))
    network = Network(["root", "l2", "pos"])
    try:
        network.open()
    except NetworkUnavailableError as fault:
        print(f"no namespaces: {fault}", file=sys.stderr)
        return EXIT_NO_NETWORK
    fire = Fire(folder, network, given.seed, given.per_second)
    try:
        outcome = fire.run(given.seconds)
    finally:
        fire.close()
        network.close()
    print(outcome.report())
    print(f"  logs and data are in {folder}", flush=True)
    return EXIT_FAILED if outcome.problems else 0


if __name__ == "__main__":
    sys.exit(main())
