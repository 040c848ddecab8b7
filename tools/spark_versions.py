"""A PySpark of another version than this environment's, in an environment of its own under `.cache/`.

It finds all other packages in this environment. Rule: an incomplete folder is filled anew.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

SUPPORTED = ("4.2", "4.3")
_FOLDER = Path(__file__).resolve().parents[1] / ".cache"
_LIMIT_S = 900.0


class SparkUnavailableError(Exception):
    """This version is not available here; the message says why in one sentence."""


def python_with_spark(version: str) -> Path:
    """An interpreter with a PySpark such as 4.2, made first where it is missing; raises `SparkUnavailableError`."""
    from pyspark import __version__

    if __version__.startswith(f"{version}."):
        return Path(sys.executable)
    folder = _FOLDER / f"pyspark-{version}"
    made = folder / "complete"
    if not made.exists():
        if os.environ.get("QANAT_OFFLINE") == "1":
            raise SparkUnavailableError(f"it is not in .cache/{folder.name}, and QANAT_OFFLINE=1 forbids to fetch it")
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        _run([sys.executable, "-m", "venv", str(folder)], "no environment can be made")
        _run([str(_python(folder)), "-m", "pip", "--quiet", "install", f"pyspark~={version}.0"], "pip cannot fetch it")
        (packages,) = folder.glob("lib/python3*/site-packages")
        # After its own packages, those of this environment.
        (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
        made.touch()
    return _python(folder)


def _python(folder: Path) -> Path:
    return folder / "bin" / "python"


def _run(command: list[str], failure: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_LIMIT_S)
    except subprocess.TimeoutExpired:
        raise SparkUnavailableError(f"{failure} within {_LIMIT_S:.0f} seconds") from None
    if done.returncode:
        words = (done.stdout + done.stderr).strip().splitlines()
        raise SparkUnavailableError(f"{failure}: {words[-1] if words else f'exit code {done.returncode}'}")
