"""What an authorizer costs a request: the same request with and without one, by turns in one process.

    python -m bench.request_authorized                    a produce request
    python -m bench.request_authorized --kind fetch       another kind: see `bench.request`
    python -m bench.request_authorized --turns 600        tighter intervals

Two processes that run the same code differ by some percent, because their memory lies elsewhere; two connections of
one process do not: the first line, a second connection without an authorizer, shows how much.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence

from bench.request import KINDS, PARTITIONS, TOGETHER, TOPIC, AllowAll, AskedAlways, OneKind, Rules
from bench.request_pairs import interval
from bench.workloads import UNFLUSHED
from bench.workloads.settings import FLUSHED
from qanat.broker.security.acl_authorizer import AclAuthorizer
from qanat.testing import BrokerHere

RULES = 10_000
_TURNS, _READS = 200, 100
_KINDS = [kind for kind in KINDS if kind not in ("idempotent", "transactional")]
"""The others have one producer for a partition."""
_LEAST_TURNS = 6
"""With fewer, no interval of order statistics covers 95 %."""


async def _turn(side: OneKind) -> float:
    """Microseconds of CPU time per request."""
    reads = side.make(_READS)
    began = time.process_time_ns()
    await side.run(reads)
    return (time.process_time_ns() - began) / (_READS * TOGETHER * 1000)


async def compare(kind: str, turns: int) -> None:
    """Print what each connection takes, as a ratio to one without an authorizer."""
    with tempfile.TemporaryDirectory() as folder:
        async with BrokerHere(data_dir=folder) as broker:
            await broker.create_topic(TOPIC, PARTITIONS, configs=FLUSHED if kind == "durable" else UNFLUSHED)
            sides = {
                "without": OneKind(kind, broker, None),
                "without, once more": OneKind(kind, broker, None),
                "allows everything": OneKind(kind, broker, AllowAll()),
                "has no revision": OneKind(kind, broker, AskedAlways()),
                f"{RULES:,} rules": OneKind(kind, broker, AclAuthorizer(Rules(RULES))),
            }
            for side in sides.values():
                await side.begin(broker)
                await _turn(side)
            names = list(sides)
            taken: dict[str, list[float]] = {name: [] for name in names}
            for turn in range(turns):
                first = turn % len(names)
                for name in (*names[first:], *names[:first]):
                    taken[name].append(await _turn(sides[name]))
    without = taken.pop("without")
    print(f"{KINDS[kind]}: {statistics.median(without):.2f} us of CPU time without an authorizer, median of {turns}")
    for name, those in taken.items():
        ratios = [one / other for one, other in zip(those, without, strict=True)]
        low, high = interval(ratios)
        print(f"{name:20} ratio {statistics.median(ratios):.3f}, 95 % interval {low:.3f} to {high:.3f}")


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser("python -m bench.request_authorized", description="What an authorizer costs.")
    parser.add_argument("--kind", choices=_KINDS, default="plain")
    parser.add_argument("--turns", type=int, default=_TURNS)
    given = parser.parse_args(arguments)
    if given.turns < _LEAST_TURNS:
        parser.error(f"--turns must be {_LEAST_TURNS} or more: fewer give no interval")
    asyncio.run(compare(given.kind, given.turns))


if __name__ == "__main__":
    main(sys.argv[1:])
