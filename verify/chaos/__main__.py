"""`python -m verify.chaos`: exit status 1 where there is an anomaly, or where too little happened."""

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
    # A script that runs this in the background may have switched interrupts off.
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
    run = Run(wanted, folder, _show)
    is_good = False
    try:
        findings = asyncio.run(run.run())
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


def _show(line: str) -> None:
    end = "" if sys.stdout.isatty() else "\n"
    if sys.stdout.isatty() or not line.lstrip()[:1].isdigit() or _is_due():
        print(f"\r{line:<100}", end=end, flush=True)


_lines = 0


def _is_due() -> bool:
    """Into a file, print one line in a hundred."""
    global _lines
    _lines += 1
    return _lines % 100 == 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m verify.chaos", description="Inject faults into three real brokers in network namespaces."
    )
    parser.add_argument("--store", choices=("sqlite", "etcd"), default="sqlite", help="metadata store (default sqlite)")
    parser.add_argument("--seconds", type=float, default=1800.0, help="duration of fault injection (default 1800)")
    parser.add_argument("--seed", type=int, default=1, help="of the plan of faults (default 1)")
    parser.add_argument("--period", type=float, default=5.0, help="seconds from one fault to the next (default 5)")
    parser.add_argument("--kind", choices=KINDS, action="append", help="only faults of this kind; may be repeated")
    parser.add_argument("--group-protocol", choices=("classic", "consumer"), default="classic", help="of the consumers")
    parser.add_argument("--rate", type=int, default=7000, help="records a second to produce (default 7000)")
    parser.add_argument(
        "--least-rate", type=float, default=5000.0, help="required records a second between faults (default 5000)"
    )
    parser.add_argument(
        "--least-faults", type=int, default=20, help="required faults of each kind (default 20, or as time allows)"
    )
    parser.add_argument("--folder", help="folder for data, logs and journals (default: the temporary folder)")
    parser.add_argument("--keep", action="store_true", help="keep that folder also after success")
    return parser


if __name__ == "__main__":
    sys.exit(main())
