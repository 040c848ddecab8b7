"""`python -m verify.diagnosis`: exits with 1 where too few cases are named, or health is not silent."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from verify.diagnosis.cases import CASES, SETTLING_S, Case, healthy

NEEDED = 0.9
"""Of the cases."""
_SHARED = "/dev/shm"
_ROOM_BYTES = 1 << 30


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m verify.diagnosis", description="qanat diagnose on real brokers.")
    parser.add_argument(
        "--case", action="append", choices=[one.cause for one in CASES], help="all where it is not given"
    )
    parser.add_argument("--seconds", type=float, default=10.0, help="the window of each case")
    parser.add_argument("--healthy", type=float, default=60.0, help="for how long health must be silent; 0 for not")
    given = parser.parse_args()
    cases = [one for one in CASES if not given.case or one.cause in given.case]
    named = sum([is_named(one, given.seconds) for one in cases])
    print(f"{named} of {len(cases)} named", flush=True)
    said = watch_health(given.healthy, given.seconds) if given.healthy else []
    for one in said:
        print(f"  healthy, and yet: {one}")
    return 0 if named >= NEEDED * len(cases) and not said else 1


def is_named(case: Case, seconds: float) -> bool:
    """Whether the injected bottleneck is what is named first."""
    disk = None if case.needs_disk else memory_disk()
    prefix = f"diagnosis-{case.cause}-"
    with TemporaryDirectory(prefix=prefix, dir=disk) as folder, case.stage(Path(folder)) as stage:
        time.sleep(SETTLING_S)
        found = stage.diagnose(seconds)
        failed = stage.failed_loads()
    findings = [(one["cause"], one["subject"]) for one in found["findings"]]
    # Where this machine itself has no core to spare, saying so is right as well.
    injected = [one for one in findings if one[0] != "busy_machine"]
    is_right = injected[:1] == [(case.cause, case.subject)]
    print(f"{'named ' if is_right else 'MISSED'} {case.cause} of {case.subject}: {_shown(found)}", flush=True)
    for one in failed:
        print(f"  a load ended: {one}", flush=True)
    return is_right


def memory_disk() -> str | None:
    """A disk in memory, where a sync takes no time: what is slow is injected, and not this machine's own disk."""
    return _SHARED if os.path.isdir(_SHARED) and shutil.disk_usage(_SHARED).free > _ROOM_BYTES else None


def watch_health(for_s: float, seconds: float) -> list[str]:
    """What is named although nothing is wrong."""
    said: list[str] = []
    with (
        TemporaryDirectory(prefix="diagnosis-healthy-", dir=memory_disk()) as folder,
        healthy(Path(folder)) as stage,
    ):
        time.sleep(SETTLING_S)
        until, windows = time.monotonic() + for_s, 0
        while time.monotonic() < until:
            found, windows = stage.diagnose(seconds), windows + 1
            named = [one for one in found["findings"] if one["cause"] != "busy_machine"]
            said += [f"{one['summary']} ({'; '.join(one['evidence'])})" for one in named]
        said += [f"a load ended: {one}" for one in stage.failed_loads()]
    print(f"healthy for {for_s:.0f} s, {windows} windows: {len(said)} findings; the last: {_shown(found)}", flush=True)
    return said


def _shown(found: dict[str, Any]) -> str:
    split = {cause: seconds for cause, seconds in found["split"].items() if cause != "client"}
    total = sum(split.values()) or 1.0
    shares = ", ".join(
        f"{cause} {100 * seconds / total:.0f} %" for cause, seconds in split.items() if seconds > total / 100
    )
    loops = ", ".join(f"{100 * one['loop_share']:.0f} %" for one in found["brokers"])
    said = "; ".join(f"{one['cause']} of {one['subject']} ({one['evidence'][0]})" for one in found["findings"])
    return f"{said or 'nothing'} [{found['requests_per_s']:.0f} requests/s; {shares}; loops {loops}]"


if __name__ == "__main__":
    sys.exit(main())
