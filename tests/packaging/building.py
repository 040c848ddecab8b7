"""Builds wheels as the build front end does, without the network."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def build_wheel(project: Path, folder: Path, **environment: str) -> tuple[Path, str]:
    """The wheel of the project, built into the folder, and what the build printed."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    clean = {name: value for name, value in os.environ.items() if name != "QANAT_PURE"}
    done = subprocess.run(
        command, cwd=project, env={**clean, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel, done.stdout + done.stderr
