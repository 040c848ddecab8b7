"""Checks of this machine: Python, native modules, libraries, limits, disk, Java.

Each check is one function that returns a `Finding`. It looks at one thing and never raises for what it finds.
"""

from __future__ import annotations

import importlib
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from qanat.app.rules.finding import Finding
from qanat.spark.java import AT_LEAST, version_in

OLDEST_PYTHON = (3, 11)
FEW_OPEN_FILES = 4096
"""A partition holds a few files open per live segment, and each client is one more."""
LITTLE_DISK_BYTES = 1 << 30
SLOW_SYNC_MS = 20.0
SYNC_PROBES = 20
JAVA_TIMEOUT_SECONDS = 10


def check_python() -> Finding:
    seen = f"{platform.python_implementation()} {platform.python_version()}"
    if sys.version_info[:2] < OLDEST_PYTHON:
        return Finding("python", "fail", seen, "Install Python 3.11 or newer.")
    return Finding("python", "ok", seen)


def check_native_core() -> Finding:
    """The per-record core: compiled, or the same module interpreted."""
    compiled, interpreted = native_modules()
    if interpreted:
        advice = "Install a C compiler (Debian: apt install gcc python3-dev), then install Qanat again."
        return Finding("native core", "warn", f"interpreted: {', '.join(interpreted)}", advice)
    if not compiled:
        return Finding("native core", "ok", "this build has none")
    return Finding("native core", "ok", f"compiled: {', '.join(compiled)}")


def native_modules() -> tuple[list[str], list[str]]:
    """Modules written for the compiler (those with a `.pxd`), by how they load: (compiled, interpreted)."""
    compiled: list[str] = []
    interpreted: list[str] = []
    package = Path(__file__).parents[2]
    for source in sorted(package.rglob("*.pxd")):
        name = source.relative_to(package.parent).with_suffix("").as_posix().replace("/", ".")
        file = importlib.import_module(name).__file__ or ""
        (compiled if file.endswith(tuple(EXTENSION_SUFFIXES)) else interpreted).append(name)
    return compiled, interpreted


def check_checksum() -> Finding:
    if _importable("crc32c"):
        return Finding("crc-32c", "ok", "crc32c")
    if _importable("google_crc32c"):
        return Finding("crc-32c", "warn", "google-crc32c, which copies every batch", "pip install crc32c")
    return Finding("crc-32c", "fail", "no library", "pip install crc32c")


def check_compression() -> Finding:
    missing = [name for name in ("cramjam", "isal") if not _importable(name)]
    if missing:
        return Finding("compression", "fail", f"missing: {', '.join(missing)}", f"pip install {' '.join(missing)}")
    return Finding("compression", "ok", "gzip, snappy, lz4, zstd")


def check_uvloop() -> Finding:
    if _importable("uvloop"):
        return Finding("event loop", "ok", "uvloop")
    return Finding("event loop", "warn", "asyncio's own, which is slower", "pip install uvloop")


def check_open_files() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    seen = f"{_limit(soft)} (may be raised to {_limit(hard)})"
    if soft != resource.RLIM_INFINITY and soft < FEW_OPEN_FILES:
        return Finding("open files", "warn", seen, "Raise the limit: ulimit -n 65536, or LimitNOFILE in systemd.")
    return Finding("open files", "ok", seen)


def check_free_disk(folder: Path) -> Finding:
    free_bytes = shutil.disk_usage(folder).free
    seen = f"{free_bytes / (1 << 30):.1f} GiB free at {folder}"
    if free_bytes < LITTLE_DISK_BYTES:
        return Finding("free disk", "fail", seen, "Free some space or choose another --data-dir.")
    return Finding("free disk", "ok", seen)


def check_sync_latency(folder: Path) -> Finding:
    """The latency of `fdatasync` after small writes, which an acks=all producer waits for."""
    try:
        took_ms = sync_latencies_ms(folder)
    except OSError as fault:
        advice = "Choose a --data-dir that this user may write to."
        return Finding("sync latency", "fail", f"cannot write to {folder}: {fault.strerror}", advice)
    median_ms, worst_ms = statistics.median(took_ms), max(took_ms)
    seen = f"median {median_ms:.2f} ms, worst {worst_ms:.2f} ms of {len(took_ms)}"
    if median_ms > SLOW_SYNC_MS:
        return Finding("sync latency", "warn", seen, "Every acks=all produce waits for this: use a faster disk.")
    return Finding("sync latency", "ok", seen)


def sync_latencies_ms(folder: Path) -> list[float]:
    """Append 4 KiB and sync, a few times, in a temporary file."""
    took_ms = []
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        for _ in range(SYNC_PROBES):
            file.write(b"\0" * 4096)
            start = time.perf_counter()
            # Not every system has fdatasync; fsync does the same and a little more.
            getattr(os, "fdatasync", os.fsync)(file.fileno())
            took_ms.append((time.perf_counter() - start) * 1000)
    return took_ms


def check_java() -> Finding:
    """Java, which only Spark pipelines need: its absence is a warning, never a failure."""
    java = shutil.which("java")
    if java is None:
        return Finding("java (spark)", "warn", "not found", "Only for Spark pipelines: install a Java 17 runtime.")
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=JAVA_TIMEOUT_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return Finding("java (spark)", "warn", f"{java} does not answer", "Only for Spark pipelines: repair Java.")
    first_line = (answer.stderr or answer.stdout).strip().split("\n")[0]
    version = version_in(first_line)
    if version is None or version < AT_LEAST:
        return Finding("java (spark)", "warn", first_line, "Only for Spark pipelines: install Java 17 or newer.")
    return Finding("java (spark)", "ok", first_line)


def _importable(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


def _limit(value: int) -> str:
    return "unlimited" if value == resource.RLIM_INFINITY else str(value)
