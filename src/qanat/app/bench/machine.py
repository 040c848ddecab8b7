"""The machine and the versions of a run, without names of hosts, users or folders."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from qanat import __version__
from qanat.app.bench.workspace import file_system
from qanat.app.doctor.machine_checks import native_modules

_PACKAGES = ("crc32c", "cramjam", "uvloop", "msgspec")


def describe(folder: Path) -> dict[str, str]:
    """Names and values, the most important first."""
    compiled, interpreted = native_modules()
    return {
        **_hardware(),
        "file system": file_system(folder),
        **_state(),
        "per-record core": "interpreted" if interpreted or not compiled else "compiled (Cython)",
        **{name: _version(name) for name in _PACKAGES},
    }


def describe_client() -> dict[str, str]:
    """The same for a machine that runs clients only: its disk does not matter."""
    return {**_hardware(), **_state()}


def _hardware() -> dict[str, str]:
    return {
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "memory": f"{_memory_bytes() / (1 << 30):.0f} GiB",
        "kernel": f"{platform.system()} {platform.release()}",
    }


def _state() -> dict[str, str]:
    return {
        "load": f"{os.getloadavg()[1]:.1f} processes on average over the last five minutes",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "qanat": __version__,
    }


def _processor() -> str:
    for line in _lines("/proc/cpuinfo"):
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
