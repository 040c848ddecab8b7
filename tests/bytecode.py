"""Bytecode of tests and sources, shared out: a fresh clone compiles each file once, not once in every worker.

Without it each worker rewrites the assertions of all six hundred files before its first test, and compiles what they
import, all at the same time.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import py_compile
import sys
from pathlib import Path

import pytest
from _pytest.assertion import rewrite

ROOT = Path(__file__).resolve().parents[1]
_FOLDERS = ("tests", "src", "verify", "bench", "tools", "demo")


def compile_share(config: pytest.Config) -> None:
    """Compile this worker's share of what is not compiled yet; the others compile theirs meanwhile."""
    worker, workers = os.environ.get("PYTEST_XDIST_WORKER", ""), os.environ.get("PYTEST_XDIST_WORKER_COUNT", "")
    if not worker.startswith("gw") or not workers.isdecimal() or sys.dont_write_bytecode:
        return
    files = [file for folder in _FOLDERS for file in sorted((ROOT / folder).rglob("*.py"))]
    for file in files[int(worker[2:]) :: int(workers)]:
        if file.name.startswith("test_"):
            _compile_test(file, config)
        elif not Path(importlib.util.cache_from_source(str(file))).exists():
            with contextlib.suppress(OSError):  # The sources may be read-only.
                py_compile.compile(str(file))


def _compile_test(file: Path, config: pytest.Config) -> None:
    cache = rewrite.get_cache_dir(file) / f"{file.stem}{rewrite.PYC_TAIL}"
    if rewrite._read_pyc(file, cache) is None and rewrite.try_makedirs(cache.parent):
        source_hash, code = rewrite._rewrite_test(file, config)
        rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, source_hash, cache)
