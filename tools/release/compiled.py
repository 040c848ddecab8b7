"""The per-record core, compiled for other CPythons than this one: C by Cython, machine code by zig.

zig is a C compiler that carries the symbols of every glibc, so what it links runs on systems as old as it is told.
"""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools.release.targets import GLIBC, Target, have_headers
from tools.toolchains.wheels import have_wheel

ZIG = ("ziglang", "0.17.0")
OPTIONS = ("-shared", "-fPIC", "-O3", "-g0", "-s", "-DNDEBUG", "-fwrapv", "-fno-strict-aliasing", "-w")
TAG_FILE = "TAG"
"""Beside the modules, for the build hook: which wheel they belong into."""
_JOBS = 2


def generate(sources: Path, folder: Path) -> dict[str, Path]:
    """Cython's C of each module below `sources` that has a `.pxd`, by its name; it is the same for every CPython."""
    # setuptools comes first: it provides distutils where Python no longer does.
    from setuptools import Extension  # isort: skip
    from Cython.Build import cythonize

    extensions = []
    for declared in sorted(sources.rglob("*.pxd")):
        name = ".".join(declared.relative_to(sources).with_suffix("").parts)
        extensions.append(Extension(name, [str(declared.with_suffix(".py"))]))
    made = cythonize(extensions, build_dir=str(folder), language_level=3, quiet=True)
    return {extension.name: Path(extension.sources[0]) for extension in made}


def compile_for(target: Target, sources: Mapping[str, Path], folder: Path) -> Path:
    """A folder with a compiled module for each source, and the tag; a compiler's error ends it."""
    zig = have_wheel(*ZIG) / "ziglang" / "zig"
    includes = [f"-I{path}" for path in have_headers(target)]
    machine = f"{platform.machine()}-linux-gnu.{GLIBC}"
    made = folder / target.abi

    def compile_one(name: str) -> None:
        path = made / (name.replace(".", "/") + target.suffix)
        path.parent.mkdir(parents=True, exist_ok=True)
        command = [str(zig), "cc", "-target", machine, *OPTIONS, *includes, str(sources[name]), "-o", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{name} does not compile for CPython {target.version}: {done.stderr[-2000:]}")

    with ThreadPoolExecutor(_JOBS) as pool:
        for _ in pool.map(compile_one, sources):
            pass
    (made / TAG_FILE).write_text(target.tag)
    return made
