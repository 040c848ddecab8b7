"""Builds wheels and sdists as the build front end does, without the network."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def build_wheel(project: Path, folder: Path, **environment: str) -> tuple[Path, str]:
    """The wheel of the project, built into the folder, and what the build printed."""
    printed = _build("wheel", project, folder, **environment)
    (wheel,) = folder.glob("*.whl")
    return wheel, printed


def build_sdist(project: Path, folder: Path) -> Path:
    """The sdist of the project, built into the folder."""
    _build("sdist", project, folder)
    (sdist,) = folder.glob("*.tar.gz")
    return sdist


def _build(target: str, project: Path, folder: Path, **environment: str) -> str:
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    clean = {name: value for name, value in os.environ.items() if name != "QANAT_PURE"}
    done = subprocess.run(
        command, cwd=project, env={**clean, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
