"""The edge's acceptance flow: five prices from a registry through a broker to a consumer application."""

from __future__ import annotations

import subprocess
import sys
import time

from demo.claims import claim

_WITHIN_S = 120


def accept() -> tuple[list[str], float]:
    """Run `qanat edge acceptance`; returns its steps, and how long it took."""
    began = time.monotonic()
    command = [sys.executable, "-m", "qanat.app", "edge", "acceptance"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_WITHIN_S, check=False)
    claim(done.returncode == 0, f"every step of the edge is seen ({done.stderr.strip()})")
    steps = [line.split(" s  ", 1)[1] for line in done.stdout.splitlines()]
    claim(steps[-1:] == ["offset of price-group: 0 -> 5"], "the offset advances from 0 to 5")
    return steps, time.monotonic() - began
