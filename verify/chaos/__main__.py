"""`python -m verify.chaos`: exit status 1 where anything is wrong, or where too little happened to show much."""

from __future__ import annotations

import argparse
import asyncio
import shutil
import signal
import sys
from pathlib import Path
from tempfile import mkdtemp

from qanat.model.errors import StoreUnavailableError
from verify.chaos.network import NetworkUnavailableError
from verify.chaos.plan import KINDS
from verify.chaos.run import Run, Wanted


def main() -> int:
    given = _parser().parse_args()
    # An interrupt is one also where a script that runs us in the background had switched it off.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    kinds = tuple(given.kind or KINDS)
    wanted = Wanted(
        store=given.store,
        seed=given.seed,
        seconds=given.seconds,
        period_s=given.period,
        rate=given.rate,
        least_rate=given.least_rate,
        least_faults=min(given.least_faults, int(given.seconds / given.period) // len(kinds)),
        kinds=kinds,
        group_protocol=given.group_protocol,
    )
    folder = Path(mkdtemp(prefix="qanat-chaos-", dir=given.folder))
    run = Run(wanted, folder, _tell)
    is_good = False
    try:
        findings = asyncio.run(run.play())
        is_good = findings.is_good
        print(f"\r{findings.table()}")
    except (NetworkUnavailableError, StoreUnavailableError) as fault:
        print(f"skipped: {fault}")
        is_good = True
    except KeyboardInterrupt:
        print("\rinterrupted; everything is cleaned up")
        return 130
    finally:
        if is_good and not given.keep:
            shutil.rmtree(folder)
        else:
            print(f"logs and journals: {folder}")
    return 0 if is_good else 1


def _tell(line: str) -> None:
    end = "" if sys.stdout.isatty() else "\n"
    if sys.stdout.isatty() or not line.lstrip()[:1].isdigit() or _is_due():
        print(f"\r{line:<100}", end=end, flush=True)


_told = 0


def _is_due() -> bool:
    """Into a file, one line in a hundred."""
    global _told
    _told += 1
    return _told % 100 == 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m verify.chaos", description="Three brokers in network namespaces, beaten up under real clients."
    )
    parser.add_argument("--store", choices=("sqlite", "etcd"), default="sqlite", help="where metadata lives")
    parser.add_argument("--seconds", type=float, default=1800.0, help="how long faults come (default 1800)")
    parser.add_argument("--seed", type=int, default=1, help="of the plan of faults (default 1)")
    parser.add_argument("--period", type=float, default=5.0, help="seconds from one fault to the next (default 5)")
    parser.add_argument("--kind", choices=KINDS, action="append", help="only faults of this kind; may be repeated")
    parser.add_argument("--group-protocol", choices=("classic", "consumer"), default="classic", help="of its readers")
    parser.add_argument("--rate", type=int, default=7000, help="records a second that are tried (default 7000)")
    parser.add_argument("--least-rate", type=float, default=5000.0, help="less between faults fails (default 5000)")
    parser.add_argument(
        "--least-faults", type=int, default=20, help="fewer of any kind fail (default 20, or what the time allows)"
    )
    parser.add_argument("--folder", help="where to keep what is written while it runs (default: the temporary folder)")
    parser.add_argument("--keep", action="store_true", help="keep it also when all is well")
    return parser


if __name__ == "__main__":
    sys.exit(main())
