"""Measurements in a fresh process: `ask` starts `child_main` and returns its answer."""

from __future__ import annotations

import json
import subprocess
import sys

from qanat.app.bench.workspace import BenchRefusedError

Answer = dict[str, float]
_TIMEOUT_S = 120


def ask(*arguments: str) -> Answer:
    """The answer of a fresh `child_main` process."""
    command = [sys.executable, "-m", "qanat.app.bench.log_figures.child_main", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        raise BenchRefusedError(f"measuring {arguments[0]!r} took more than {_TIMEOUT_S} s") from error
    if done.returncode:
        raise BenchRefusedError(f"measuring {arguments[0]!r} in its own process failed: {done.stderr.strip()[-300:]}")
    answer: Answer = json.loads(done.stdout)
    return answer
