"""A release that tests of `deploy/` install: built once, and kept in `.cache/deploy`.

Building takes a quarter of an hour, so only `make deploy-test`, which names this folder, does it.
"""

from __future__ import annotations

import fcntl
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
def release(pytestconfig: pytest.Config) -> Path:
    """Sdists and wheels, built where they are missing or older than the sources."""
    if not any("tests/deploy" in named for named in pytestconfig.args):
        pytest.skip("a release takes long to build: make deploy-test installs one")
    folder = KEPT / "release"
    KEPT.mkdir(parents=True, exist_ok=True)
    with (KEPT / "release.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        changed = max(path.stat().st_mtime for path in (ROOT / "src").rglob("*.py"))
        made = [path for path in folder.glob("*.*") if path.stat().st_mtime >= changed]
        if len(made) < 2 * len(TARGETS) + 2:
            run(sys.executable, "-m", "tools.build_dist", str(folder))
    return folder
