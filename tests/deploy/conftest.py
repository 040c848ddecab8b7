"""A release that tests of `deploy/` install: built once, and kept in `.cache/deploy`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tools.release.targets import TARGETS

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / ".cache" / "deploy"


def run(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return done.stdout


@pytest.fixture(scope="session")
def release() -> Path:
    """Sdists and wheels, built where they are missing or older than the sources."""
    folder = KEPT / "release"
    changed = max(path.stat().st_mtime for path in (ROOT / "src").rglob("*.py"))
    made = [path for path in folder.glob("*.*") if path.stat().st_mtime >= changed]
    if len(made) < 2 * len(TARGETS) + 2:
        run(sys.executable, "-m", "tools.build_dist", str(folder))
    return folder
