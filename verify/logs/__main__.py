"""`python -m verify.logs`: power cuts at every operation of seeded workloads, until the time or the seeds run out.

    python -m verify.logs --seconds 60                             as many workloads as fit
    python -m verify.logs --seeds 1-200                            these seeds
    python -m verify.logs --seed 17 --cut 45 --variant random-1    one image again, with its traceback

Exit status 1 where an image failed. Ctrl-C ends the sweep with a report of the images so far.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator

from verify.logs.crash_sweep import VARIANTS, Failure, Outcome, Sweep

_DEFAULT_SECONDS = 30.0
_SHOWN = 10
"""Failures printed in full; the others are counted."""


def main(arguments: list[str] | None = None) -> int:
    """Run the sweep that the arguments describe."""
    options = _parser().parse_args(arguments)
    if options.cut is not None and options.seed is None:
        _parser().error("--cut needs the --seed of the workload that it cuts")
    outcome = Outcome()
    started = time.monotonic()
    try:
        for seed in _seeds(options, started):
            _run(seed, options, outcome)
            _show_progress(outcome, seed, time.monotonic() - started)
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
    _report(outcome, time.monotonic() - started, is_replay=options.cut is not None)
    return 1 if outcome.failures else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m verify.logs", description="Cut a log's power at every operation.")
    parser.add_argument("--seconds", type=float, help=f"how long (default {_DEFAULT_SECONDS:g} without --workloads)")
    parser.add_argument("--workloads", type=int, help="number of workloads")
    parser.add_argument("--seeds", type=_range, help="seeds, as 1-200")
    parser.add_argument("--seed", type=int, help="the first seed, or the only one to replay with --cut")
    parser.add_argument("--cut", type=int, help="only the image after this many operations")
    parser.add_argument("--variant", choices=VARIANTS, help="only this kind of image")
    return parser


def _range(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def _seeds(options: argparse.Namespace, started: float) -> Iterator[int]:
    if options.cut is not None:
        yield options.seed
        return
    first = options.seed or 0
    count = options.workloads if options.workloads is not None else None
    seeds = options.seeds or range(first, first + count if count is not None else 2**62)
    is_bounded = options.seeds is not None or count is not None
    seconds = options.seconds if options.seconds is not None or is_bounded else _DEFAULT_SECONDS
    for seed in seeds:
        if seconds is not None and time.monotonic() - started >= seconds:
            return
        yield seed


def _run(seed: int, options: argparse.Namespace, outcome: Outcome) -> None:
    Sweep(seed, only_cut=options.cut, only_variant=options.variant, outcome=outcome).run()


def _show_progress(outcome: Outcome, seed: int, seconds: float) -> None:
    if sys.stderr.isatty():
        line = f"seed {seed}: {outcome.images} images, {outcome.images / max(seconds, 0.001):.0f}/s"
        print(f"\r{line}, {len(outcome.failures)} failed", end="", file=sys.stderr, flush=True)


def _report(outcome: Outcome, seconds: float, *, is_replay: bool) -> None:
    if sys.stderr.isatty():
        print(file=sys.stderr)
    for failure in outcome.failures[:_SHOWN]:
        _show(failure, is_replay=is_replay)
    if len(outcome.failures) > _SHOWN:
        print(f"... and {len(outcome.failures) - _SHOWN} more")
    print(
        f"{outcome.workloads} workloads, {outcome.images} images, {outcome.operations} operations in {seconds:.1f} s "
        f"({outcome.images / max(seconds, 0.001):.0f} images/s): {len(outcome.failures) or 'no'} failures"
    )


def _show(failure: Failure, *, is_replay: bool) -> None:
    if is_replay:
        print(failure.details)
    print(f"FAILED {failure.problem}\n  replay: {failure.command}")


if __name__ == "__main__":
    sys.exit(main())
