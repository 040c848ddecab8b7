"""A copy of the tree in which one module at a time is mutated and its tests are run.

The copy holds no compiled module, so every mutant is really executed. Bytecode is written once, by the run that must
pass; after that it is only read, and the mutated module's is removed: Python recognises a changed source by its size
and second alone.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path

from verify.mutants.core import ROOT, path_of
from verify.mutants.mutations import Mutation

_COPIED = ("src", "tests", "tools", "verify", "bench", "demo", "docs", "pyproject.toml", "mkdocs.yml", "Makefile")
_LEFT_OUT = shutil.ignore_patterns("*.so", "*.c", "__pycache__", "node_modules", "*.jar")
_PYTEST = (
    *("-m", "pytest", "-x", "-q", "--no-header", "-m", "not long"),
    *("-o", "addopts=--import-mode=importlib", "-p", "no:cacheprovider", "-p", "pytest_timeout"),
    *("-p", "_hypothesis_pytestplugin", "--hypothesis-profile=ci", "-p", "qanat.testing.pytest_plugin"),
)
_LEAST_TIMEOUT_S = 15.0
_TIMES_SLOWER = 5.0
_FIRST_TIMEOUT_S = 600.0


class Outcome(Enum):
    """The result of the tests on a mutant."""

    KILLED = "killed"
    SURVIVED = "survived"
    TIMEOUT = "timeout"


class BaselineError(Exception):
    """The tests of a module cannot judge it: they fail without a mutant, or never import it."""


class Workshop:
    """One copy of the tree; one mutant at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        for name in _COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, folder / name, ignore=_LEFT_OUT)
            elif (ROOT / name).exists():
                shutil.copy(ROOT / name, folder / name)

    def timeout_s(self, module: str, tests: Sequence[str]) -> float:
        """How long a mutant may take. The tests must pass without a mutant, and fail where the import fails."""
        began = time.monotonic()
        code, output = self._run(tests, _FIRST_TIMEOUT_S, is_writing=True)
        if code != 0:
            raise BaselineError(f"the tests of {module} do not pass as it is:\n{output}")
        took_s = time.monotonic() - began
        with self._replaced(module, "raise ImportError('mutant')\n"):
            if self._run(tests, _FIRST_TIMEOUT_S)[0] == 0:
                raise BaselineError(f"the tests of {module} never import it: {', '.join(tests)}")
        return max(_LEAST_TIMEOUT_S, took_s * _TIMES_SLOWER)

    def judge(self, mutation: Mutation, tests: Sequence[str], timeout_s: float) -> Outcome:
        """Run the tests on one mutant."""
        with self._replaced(mutation.module, mutation.source):
            code, _ = self._run(tests, timeout_s)
        if code is None:
            return Outcome.TIMEOUT
        return Outcome.SURVIVED if code == 0 else Outcome.KILLED

    @contextmanager
    def _replaced(self, module: str, source: str) -> Iterator[None]:
        path = self.folder / path_of(module)
        before = path.read_text()
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink()
        path.write_text(source)
        try:
            yield
        finally:
            path.write_text(before)

    def _run(self, tests: Sequence[str], timeout_s: float, *, is_writing: bool = False) -> tuple[int | None, str]:
        """The exit code of pytest, None where it took too long; and its output."""
        settings = {
            "PYTHONPATH": os.pathsep.join([str(self.folder / "src"), str(self.folder)]),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTHONDONTWRITEBYTECODE": "" if is_writing else "1",
        }
        process = subprocess.Popen(
            [sys.executable, *_PYTEST, f"--basetemp={self.folder / 'tmp'}", *tests],
            cwd=self.folder,
            env={**os.environ, **settings},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            return None, output
        return process.returncode, output
