"""Chromium for tests of the console: this machine's, driven by PyPI's playwright, and axe-core from npm.

Playwright's own browsers are not fetched: Debian's and Ubuntu's package is, by whoever sets up the machine.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import io
import shutil
import tarfile
import urllib.request
from pathlib import Path

from tools.toolchains.registries import NPM, MissingToolError, need
from tools.toolchains.wheels import CACHE

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
AXE = "4.14.0"
AXE_SHA256 = "2277b0a3ef47af9b52497faa3e71598e86e0a0e5e6eb295207a5657ede4709af"
_LIMIT_SECONDS = 60


def have_chromium() -> Path:
    """The program; raises `MissingToolError` where it, or playwright, is missing."""
    found = next((path for name in PROGRAMS if (path := shutil.which(name)) is not None), None)
    if found is None:
        raise MissingToolError("there is no Chromium on this machine: apt-get install chromium")
    if importlib.util.find_spec("playwright") is None:
        raise MissingToolError("playwright is not installed: make setup")
    return Path(found)


def have_axe(cache: Path = CACHE) -> Path:
    """axe-core's script, brought from npm where it is missing; raises `MissingToolError`."""
    script = cache / f"axe-{AXE}.js"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{script.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not script.is_file():
            need(NPM, "axe-core")
            with urllib.request.urlopen(f"{NPM}axe-core/-/axe-core-{AXE}.tgz", timeout=_LIMIT_SECONDS) as answer:
                archive = answer.read()
            if hashlib.sha256(archive).hexdigest() != AXE_SHA256:
                raise MissingToolError(f"npm's axe-core {AXE} is not what it was: its SHA-256 differs")
            with tarfile.open(fileobj=io.BytesIO(archive)) as files:
                member = files.extractfile("package/axe.min.js")
                assert member is not None
                partial = script.with_suffix(".partial")
                partial.write_bytes(member.read())
            partial.rename(script)
    return script
