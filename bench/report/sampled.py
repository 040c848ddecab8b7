"""A broker that samples itself: `qanat ...`, with its stack recorded each time its process has used some CPU time.

    python -m bench.report.sampled FOLDER start --port 9092

SIGUSR1 begins, SIGUSR2 ends and writes what was seen into FOLDER, as JSON.

What it cannot see: Python notes a signal between two instructions, so time inside C (system calls, checksums, compiled
modules, the event loop) counts for the Python function that called it; time on other threads counts for whatever the
main thread is doing then. `bench.report.kernel` sees below the interpreter instead.
"""

from __future__ import annotations

import json
import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

INTERVAL_S = 0.001
"""Of CPU time; the kernel rounds it up to its own tick."""
_SOURCES = "/src/qanat/"
_INSTALLED = "/site-packages/"


def place(frame: FrameType) -> str:
    """A function as `module: name`, without the folders of this machine."""
    file, name = frame.f_code.co_filename, frame.f_code.co_qualname
    if _SOURCES in file:
        return f"{file.rpartition(_SOURCES)[2]}: {name}"
    if _INSTALLED in file:
        return f"{file.rpartition(_INSTALLED)[2]}: {name}"
    return f"Python's library, {Path(file).name}: {name}"


def main(folder: Path, arguments: list[str]) -> None:
    seen: Counter[str] = Counter()
    written = 0

    def look(_: int, frame: FrameType | None) -> None:
        if frame is not None:
            seen[place(frame)] += 1

    def begin(*_: object) -> None:
        seen.clear()
        signal.setitimer(signal.ITIMER_PROF, INTERVAL_S, INTERVAL_S)

    def end(*_: object) -> None:
        nonlocal written
        signal.setitimer(signal.ITIMER_PROF, 0)
        unfinished = folder / "unfinished"
        unfinished.write_text(json.dumps(seen))
        unfinished.rename(folder / f"samples-{written}.json")
        written += 1

    for number, handler in ((signal.SIGPROF, look), (signal.SIGUSR1, begin), (signal.SIGUSR2, end)):
        signal.signal(number, handler)
        signal.siginterrupt(number, False)
    sys.argv = ["qanat", *arguments]
    from qanat.app.main import main as qanat

    qanat()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
