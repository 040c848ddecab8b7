"""`python -m verify.restart kill|power`: rounds until the time is up. Exit status 1 where acknowledged data is lost."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from verify.restart.kill import kill_again_and_again
from verify.restart.ledger import Mark
from verify.restart.power import check_images, cut_images

_SHOWN = 10
_KILLS_PER_ROUND = 10
_IMAGES_PER_ROUND = 200

Round = Callable[[Path, int], tuple[int, Mark, list[str]]]


def main() -> int:
    options = _parser().parse_args()
    rounds: dict[str, tuple[str, Round]] = {"kill": ("kills", _kill), "power": ("images", _cut_power)}
    noun, run = rounds[options.how]
    started, done, records, commits, seed = time.monotonic(), 0, 0, 0, options.seed
    while True:
        with TemporaryDirectory(prefix="qanat-restart-") as folder:
            count, mark, problems = run(Path(folder), seed)
        done, records, commits = done + count, records + mark.records, commits + mark.commits
        seconds = time.monotonic() - started
        print(
            f"seed {seed}: {done} {noun}, {records} records and {commits} commits acknowledged, {seconds:.0f} s",
            flush=True,
        )
        if problems:
            print("\n".join(problems[:_SHOWN]))
            print(f"FAILED: {len(problems)} problems; again with --seed {seed}")
            return 1
        if seconds >= options.seconds:
            return 0
        seed += 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m verify.restart",
        description="Kill brokers, and compare what they have with what they acknowledged.",
    )
    parser.add_argument("how", choices=("kill", "power"), help="kill -9 a process, or cut its machine's power")
    parser.add_argument("--seconds", type=float, default=60.0, help="begin no other round after so long (default 60)")
    parser.add_argument("--seed", type=int, default=1, help="of the first round (default 1)")
    return parser


def _kill(folder: Path, seed: int) -> tuple[int, Mark, list[str]]:
    ledger, problems = kill_again_and_again(folder, _KILLS_PER_ROUND, seed)
    return _KILLS_PER_ROUND, ledger.mark(), problems


def _cut_power(folder: Path, seed: int) -> tuple[int, Mark, list[str]]:
    ledger, images = cut_images(folder, _IMAGES_PER_ROUND, seed)
    return len(images), ledger.mark(), check_images(images, ledger)


if __name__ == "__main__":
    sys.exit(main())
