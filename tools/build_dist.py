"""Build the sdist and, from it, the wheels; then try each wheel in an empty environment.

    python tools/build_dist.py FOLDER

It builds two wheels where there is a compiler (compiled and pure), one where there is none. Building from the sdist
proves that the sdist is complete; installing with the pinned runtime dependencies alone proves that Qanat needs none of
the developer's tools.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

# Imports the per-record core of the wheel: the interpreted form must work without Cython.
TRIAL = """
from qanat.app.doctor.doctor import native_modules
compiled, interpreted = native_modules()
print(f"  compiled {compiled}, interpreted {interpreted}")
"""


def main() -> int:
    """Build, try, report; a step that fails ends it with that step's message."""
    folder = (ROOT / sys.argv[1]).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    _run([sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(folder)])
    (sdist,) = folder.glob("qanat-*.tar.gz")
    for pure in ("1", "0"):
        command = [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--quiet",
            "--no-deps",
            "--no-build-isolation",
            "--no-cache-dir",
        ]
        _run([*command, "-w", str(folder), str(sdist)], QANAT_PURE=pure)
    for wheel in sorted(folder.glob("*.whl")):
        print(f"Trying {wheel.name} in an empty environment ...", flush=True)
        _try(wheel)
    for path in sorted(folder.iterdir()):
        print(f"{path.stat().st_size:>10,} bytes  {path.name}")
    return 0


def _try(wheel: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="qanat-trial-") as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin" / "python"
        _run([str(python), "-m", "pip", "install", "--quiet", "-c", str(ROOT / "constraints.txt"), str(wheel)])
        _run([str(python.with_name("qanat")), "--version"], cwd=folder)
        _run([str(python), "-c", TRIAL], cwd=folder)


def _run(command: list[str], cwd: str | Path = ROOT, **environment: str) -> None:
    done = subprocess.run(command, cwd=cwd, env={**os.environ, **environment}, check=False)
    if done.returncode:
        sys.exit(f"build_dist: `{' '.join(command)}` failed with exit code {done.returncode}")


if __name__ == "__main__":
    sys.exit(main())
