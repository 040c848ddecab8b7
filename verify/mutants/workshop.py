"""A copy of the tree in which tests judge mutants.

The copy holds no compiled module, so every mutant is really executed. A fork server (`fork_server`) runs the tests of
most mutants; those that it cannot reach are written into the copy and run in a fresh process.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple, Self

from verify.mutants import fork_server, line_recorder
from verify.mutants.core import ROOT, path_of
from verify.mutants.mutations import Mutation

_COPIED = ("src", "tests", "tools", "verify", "bench", "demo", "docs", "pyproject.toml", "mkdocs.yml", "Makefile")
_LEFT_OUT = shutil.ignore_patterns("*.so", "*.c", "__pycache__", "node_modules", "*.jar")
_PYTEST = (
    *("-m", "pytest", "-x", "-q", "--no-header", "-m", "not long"),
    *("-o", "addopts=--import-mode=importlib", "-p", "no:cacheprovider", "-p", "pytest_timeout"),
    *("-p", "_hypothesis_pytestplugin", "--hypothesis-profile=ci", "-p", "qanat.testing.pytest_plugin"),
)
_LEAST_TIMEOUT_S = 120.0
_TIMES_SLOWER = 20.0
_FIRST_TIMEOUT_S = 3600.0
_FIRST_TIME_S = (60.0, 60.0)

Times = dict[str, tuple[float, float]]
"""Processor and wall seconds of tests, by the name that pytest gives them."""


class Outcome(Enum):
    """The result of the tests on a mutant."""

    KILLED = "killed"
    SURVIVED = "survived"
    TIMEOUT = "timeout"


class Judgement(NamedTuple):
    """The outcome for a mutant, and the test that it fails or stops."""

    outcome: Outcome
    test: str = ""


class BaselineError(Exception):
    """The tests cannot judge mutants: they fail without one."""


class Workshop:
    """One copy of the tree; one mutant at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        folder.mkdir(parents=True)
        for name in _COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, folder / name, ignore=_LEFT_OUT)
            elif (ROOT / name).exists():
                shutil.copy(ROOT / name, folder / name)

    def lines(self, tests: Sequence[str], modules: Iterable[str]) -> dict[str, dict[str, list[int]]]:
        """The lines that each test executes, by the module's path. Slow: every line is traced."""
        output = self.folder / "lines.json"
        settings = {
            line_recorder.LINES_FILE: str(output),
            line_recorder.RECORDED_PATHS: json.dumps([str(path_of(module)) for module in modules]),
        }
        self._run(["-p", "verify.mutants.line_recorder", "--maxfail=0", *tests], _FIRST_TIMEOUT_S, settings)
        found: dict[str, dict[str, list[int]]] = json.loads(output.read_text())
        return found

    def judge_afresh(self, mutation: Mutation, times: Times) -> Judgement:
        """Run tests on one mutant in a process that imports it."""
        timeout_s = max(_LEAST_TIMEOUT_S, sum(wall_s for _, wall_s in times.values()) * _TIMES_SLOWER)
        with self._replaced(mutation.module, mutation.source):
            code, output = self._run(list(times), timeout_s)
        if code is None:
            return Judgement(Outcome.TIMEOUT)
        if code == 0:
            return Judgement(Outcome.SURVIVED)
        return Judgement(Outcome.KILLED, next((name for name in times if name in output), ""))

    @contextmanager
    def _replaced(self, module: str, source: str) -> Iterator[None]:
        path = self.folder / path_of(module)
        before = path.read_text()
        # Python recognises a changed source by its size and second alone.
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink()
        path.write_text(source)
        try:
            yield
        finally:
            path.write_text(before)

    def _run(
        self, arguments: Sequence[str], timeout_s: float, settings: dict[str, str] | None = None
    ) -> tuple[int | None, str]:
        """The exit code of pytest, None where it took too long; and its output."""
        process = self.start(
            [f"--basetemp={self.folder / 'tmp-afresh'}", *arguments],
            {"PYTHONDONTWRITEBYTECODE": "1", **(settings or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            output, _ = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            return None, output
        return process.returncode, output

    def start(self, arguments: Sequence[str], settings: dict[str, str], **options: Any) -> subprocess.Popen[Any]:
        """Start pytest in this copy."""
        paths = os.pathsep.join([str(self.folder / "src"), str(self.folder)])
        return subprocess.Popen(
            [sys.executable, *_PYTEST, *arguments],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": paths, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **settings},
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            **options,
        )


class TestProcess:
    """A process of a workshop that has collected tests, and runs them on one mutant after the other."""

    __test__ = False

    def __init__(self, workshop: Workshop, tests: Sequence[str]) -> None:
        self.workshop = workshop
        self._output = workshop.folder / "output"
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        with self._output.open("w") as output:
            self._process = workshop.start(
                [
                    "-s",
                    "--tb=native",
                    "-p",
                    "verify.mutants.fork_server",
                    f"--basetemp={workshop.folder / 'tmp'}",
                    *tests,
                ],
                {fork_server.PIPES: f"{theirs_in},{theirs_out}"},
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=(theirs_in, theirs_out),
            )
        os.close(theirs_in)
        os.close(theirs_out)
        self._requests = os.fdopen(ours_out, "w")
        self._answers = os.fdopen(ours_in)
        try:
            self.names: list[str] = self._read()
        except BaselineError:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._requests.close()
        self._answers.close()
        self._process.wait()

    def times(self) -> Times:
        """How long each test takes. All must pass: no mutant is applied."""
        answer = self._ask({"tests": dict.fromkeys(self.names, _FIRST_TIME_S), "is_stopping": False})
        if answer["failed"] or answer["what"] != fork_server.PASSED:
            failures = "\n".join(f"{test}\n{text}" for test, text in answer["failed"].items())
            raise BaselineError(f"tests do not pass without a mutant: {answer['test']} {answer['what']}\n{failures}")
        return {test: (cpu_s, wall_s) for test, (cpu_s, wall_s) in answer["took"].items()}

    def judge(self, mutation: Mutation, times: Times) -> Judgement:
        """Run tests on one mutant, in this order, up to the first that fails."""
        mutant = {
            "path": str(self.workshop.folder / path_of(mutation.module)),
            "function": mutation.function,
            "line": mutation.line,
            "source": mutation.source,
        }
        answer = self._ask({"tests": times, "is_stopping": True, "mutant": mutant})
        match answer["what"]:
            case fork_server.PASSED:
                return Judgement(Outcome.SURVIVED)
            case fork_server.TIMEOUT:
                return Judgement(Outcome.TIMEOUT, answer["test"])
            case fork_server.FAILED:
                return Judgement(Outcome.KILLED, answer["test"])
        return self.workshop.judge_afresh(mutation, times)

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        print(json.dumps(request), file=self._requests, flush=True)
        answer: dict[str, Any] = self._read()
        return answer

    def _read(self) -> Any:
        line = self._answers.readline()
        if not line:
            raise BaselineError(f"the process that runs the tests has ended:\n{self._output.read_text()}")
        return json.loads(line)
