"""A pytest plugin: collects the tests once, then forks a child for each mutant, which runs some of them.

The child gives the mutated function its new code: every reference to the function, whoever imported it, then runs
the mutant. A mutant that this cannot reach is answered with `UNREACHED`; a fresh process judges it.

A request and its answer are one line of JSON each, on the two pipes that `PIPES` names.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import resource
import select
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, TextIO

import pytest

PIPES = "MUTANTS_PIPES"
PASSED, FAILED, TIMEOUT, UNREACHED = "passed", "failed", "timeout", "unreached"
START, TOOK, END = "start", "took", "end"

_LEAST_CPU_S, _TIMES_CPU = 2.0, 10.0
_LEAST_IDLE_S, _TIMES_IDLE = 5.0, 3.0
_LEAST_WALL_S, _TIMES_WALL = 60.0, 20.0
_MEMORY_BYTES = 4 << 30
_POLL_S = 1.0

_Functions = dict[tuple[str, str], list[FunctionType]]


class UnreachedError(Exception):
    """No function of this process can be given the mutant's code."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    if session.testsfailed:
        return None
    reading, writing = map(int, os.environ[PIPES].split(","))
    with os.fdopen(reading) as requests, os.fdopen(writing, "w") as answers:
        ForkServer(session).serve(requests, answers)
    return True


class ForkServer:
    """Serves one request at a time, each in a child."""

    def __init__(self, session: pytest.Session) -> None:
        self._items = {item.nodeid: item for item in session.items}
        self._functions = _functions()

    def serve(self, requests: TextIO, answers: TextIO) -> None:
        print(json.dumps(list(self._items)), file=answers, flush=True)
        for line in requests:
            print(json.dumps(self._answer(json.loads(line))), file=answers, flush=True)

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reading)
            _Child(self._items, self._functions, writing).run(request)
        os.close(writing)
        try:
            return _Watch(child, reading, request["tests"]).answer()
        finally:
            os.close(reading)


# In the child


class _Child:
    """Applies a mutant, runs tests and ends with the first that fails."""

    def __init__(self, items: dict[str, pytest.Item], functions: _Functions, pipe: int) -> None:
        self._items = items
        self._functions = functions
        self._pipe = pipe
        self._failure = ""

    def run(self, request: dict[str, Any]) -> None:
        try:
            os.setsid()
            resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY_BYTES, _MEMORY_BYTES))
            if mutant := request.get("mutant"):
                apply(self._functions, mutant["path"], mutant["function"], mutant["line"], mutant["source"])
            self._run_tests(request["tests"], is_stopping=request["is_stopping"])
        except UnreachedError:
            self._say(UNREACHED)
        finally:  # What stops pytest itself fails the test; the server sees a child without a verdict.
            if sys.exc_info()[0]:
                traceback.print_exc()
            self._say(END)
            os._exit(0)

    def _run_tests(self, tests: dict[str, list[float]], *, is_stopping: bool) -> None:
        items = [self._items[name] for name in tests]
        items[0].config.pluginmanager.register(self)
        for item, following in zip(items, [*items[1:], None], strict=True):
            cpu_s, wall_s = time.process_time(), time.monotonic()
            _limit_cpu(cpu_s + max(_LEAST_CPU_S, tests[item.nodeid][0] * _TIMES_CPU))
            self._say(START, test=item.nodeid)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if self._failure:
                self._say(FAILED, text=self._failure)
                if is_stopping:
                    return
                self._failure = ""
            self._say(TOOK, took=[time.process_time() - cpu_s, time.monotonic() - wall_s])
        self._say(PASSED)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failure = self._failure or report.longreprtext

    def _say(self, what: str, **fields: object) -> None:
        os.write(self._pipe, json.dumps({"what": what, **fields}).encode() + b"\n")


def _limit_cpu(cpu_s: float) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_s) + 1, resource.RLIM_INFINITY))


def apply(functions: _Functions, path: str, function: str, line: int, source: str) -> None:
    """Give the function at a line the code that a changed source has for it."""
    live = [one for one in functions.get((path, function), []) if one.__code__.co_firstlineno <= line]
    if not live:
        raise UnreachedError
    first = max(one.__code__.co_firstlineno for one in live)
    codes = [
        code
        for code in _codes(compile(source, path, "exec", dont_inherit=True))
        if code.co_qualname == function and code.co_firstlineno == first
    ]
    for one in live:
        if one.__code__.co_firstlineno == first:
            try:
                (one.__code__,) = codes
            except ValueError as fault:  # It reads other variables of an outer scope than before, such as `super()`.
                raise UnreachedError from fault


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _functions() -> _Functions:
    """The functions of this process by path and qualified name."""
    found: _Functions = {}
    gc.unfreeze()
    for one in gc.get_objects():
        if type(one) is FunctionType:
            found.setdefault((one.__code__.co_filename, one.__code__.co_qualname), []).append(one)
    gc.freeze()
    return found


# In the server


class _Watch:
    """What a child reports, and whether it is stuck: too much processor time, idle for too long, or endless."""

    def __init__(self, child: int, pipe: int, tests: dict[str, list[float]]) -> None:
        self._child = child
        self._pipe = pipe
        self._tests = tests
        self._test = ""
        self._answer: dict[str, Any] = {"failed": {}, "took": {}}
        self._began = self._busy = time.monotonic()
        self._cpu = -1
        self._is_ended = False

    def answer(self) -> dict[str, Any]:
        is_stuck = self._follow()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._child, signal.SIGKILL)  # With the processes that it started.
        _, status = os.waitpid(self._child, 0)
        if "what" not in self._answer:
            assert self._test, "the child ended before its first test: see the output"
            is_timeout = is_stuck or (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU)
            self._answer.update(what=TIMEOUT if is_timeout else FAILED, test=self._test)
        return self._answer

    def _follow(self) -> bool:
        """Read reports until the child ends; True where it is stuck."""
        rest = b""
        while True:
            if not select.select([self._pipe], [], [], _POLL_S)[0]:
                if self._is_stuck():
                    return True
                continue
            data = os.read(self._pipe, 1 << 16)
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self._note(json.loads(line))
            if not data or self._is_ended:
                return False

    def _note(self, message: dict[str, Any]) -> None:
        what = message["what"]
        if what == START:
            self._test = message["test"]
            self._began = self._busy = time.monotonic()
        elif what == TOOK:
            self._answer["took"][self._test] = message["took"]
        elif what == END:
            self._is_ended = True
        else:
            self._answer.update(what=what, test=self._test)
            if what == FAILED:
                self._answer["failed"].setdefault(self._test, message["text"])

    def _is_stuck(self) -> bool:
        now, usual_s = time.monotonic(), self._tests.get(self._test, [0.0, 0.0])[1]
        cpu, is_running = _activity(self._child)
        if cpu != self._cpu or is_running:
            self._busy, self._cpu = now, cpu
        is_idle = now - self._busy > max(_LEAST_IDLE_S, usual_s * _TIMES_IDLE)
        return is_idle or now - self._began > max(_LEAST_WALL_S, usual_s * _TIMES_WALL)


def _activity(process: int) -> tuple[int, bool]:
    """The processor time of a process in ticks, and whether one of its threads is ready to run."""
    ticks, is_running = 0, False
    for task in Path(f"/proc/{process}/task").glob("*/stat"):
        with contextlib.suppress(OSError):
            fields = task.read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
            is_running |= fields[0] != "S"
    return ticks, is_running
