"""`python -m verify.security_fire`: rounds of rotations and a lockdown under load, each by a seed of its own.

    python -m verify.security_fire                       one round, about four minutes
    python -m verify.security_fire --seconds 1800        rounds for half an hour, with seeds 1, 2, 3 and so on
    python -m verify.security_fire --seed 7              the round of one seed again
    python -m verify.security_fire --store etcd          with an etcd as metadata store
    python -m verify.security_fire --only lockdown       one part of each round

Exit status 1 where a record is lost, a client got an error that retrying does not help, or what was taken away still
counts. Data and logs of a round without problems are removed.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from tempfile import mkdtemp

from verify.security_fire.lockdown import Lockdown
from verify.security_fire.outcome import Outcome
from verify.security_fire.rotation import Rotation


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m verify.security_fire", description="Security under fire.")
    parser.add_argument("--seconds", type=float, default=0.0, help="begin rounds for so long (default: one round)")
    parser.add_argument("--seed", type=int, default=1, help="of the first round")
    parser.add_argument("--store", choices=("sqlite", "etcd"), default="sqlite", help="metadata store (default sqlite)")
    parser.add_argument("--only", choices=("rotation", "lockdown"))
    parser.add_argument("--folder", type=Path, help="where data and logs are kept (default: a new one)")
    given = parser.parse_args(arguments)
    folder = given.folder or Path(mkdtemp(prefix="security-fire-"))
    folder.mkdir(parents=True, exist_ok=True)
    print(f"data and logs are in {folder}", flush=True)
    end_s, outcomes, failed = time.monotonic() + given.seconds, [], []
    for seed in count(given.seed):
        place = folder / f"seed-{seed}"
        place.mkdir()
        found = []
        for outcome in _round(place, seed, given.store, given.only):
            print(f"seed {seed}, {outcome.report()}", flush=True)
            found.append(outcome)
        outcomes += found
        if any(outcome.problems for outcome in found):
            failed.append(seed)
        else:
            shutil.rmtree(place)
        if time.monotonic() >= end_s:
            break
    records, kills = sum(one.records for one in outcomes), sum(one.done["kill -9"] for one in outcomes)
    verdict = f"problems with seeds {failed}" if failed else "no problems"
    print(f"seeds {given.seed} to {seed} on {given.store}: {records} records, {kills} kills, {verdict}", flush=True)
    return 1 if failed else 0


def _round(folder: Path, seed: int, store: str, only: str | None) -> Iterator[Outcome]:
    if only != "lockdown":
        yield Rotation(folder, seed, store).run()
    if only != "rotation":
        yield Lockdown(folder, seed, store).run()


if __name__ == "__main__":
    sys.exit(main())
