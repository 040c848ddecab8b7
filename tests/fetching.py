"""What tests fetch from elsewhere: one attempt in a run, whose failure counts for every worker."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path

from tools.toolchains.registries import MissingToolError as Unavailable

__all__ = ["CACHE", "Unavailable", "fetch_once", "note_begin", "run_began_at"]

CACHE = Path(__file__).resolve().parents[1] / ".cache"
_BEGAN = "TESTS_OF_QANAT_BEGAN"


def note_begin() -> None:
    """Call it before workers start: they inherit the time at which the run began."""
    os.environ.setdefault(_BEGAN, str(time.time()))


def run_began_at() -> float:
    return float(os.environ[_BEGAN])


def fetch_once(name: str, is_here: Callable[[], bool], fetch: Callable[[], object]) -> None:
    """Fetch what is not here; raises `Unavailable`, at once where an attempt of the same run has failed."""
    CACHE.mkdir(exist_ok=True)
    failure = CACHE / f"{name}.failure"
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_here():
            return
        if failure.exists() and failure.stat().st_mtime >= run_began_at():
            raise Unavailable(failure.read_text())
        try:
            fetch()
        except Unavailable as reason:
            failure.write_text(str(reason))
            raise
        failure.unlink(missing_ok=True)
