"""A pytest plugin: records which lines of the mutated modules each test executes.

Functions that run while modules are imported are recorded under the empty name: a mutant there is
not seen by a process that has imported them already.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Generator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

LINES_FILE = "MUTANTS_LINES_FILE"
RECORDED_PATHS = "MUTANTS_RECORDED_PATHS"
IMPORTS = ""


class LineRecorder:
    """Traces the modules at the given paths, test by test."""

    def __init__(self, paths: list[str], output: Path) -> None:
        self._names = {str(Path(path).resolve()): path for path in paths}
        self._output = output
        self._missing: dict[int, tuple[CodeType, set[int]]] = {}
        """The lines of each function that the current test has not executed, by the identity of its code."""
        self._tests: dict[str, dict[str, list[int]]] = {}

    def start(self) -> None:
        threading.settrace(self._on_call)
        sys.settrace(self._on_call)

    def _on_call(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        name = self._names.get(code.co_filename)
        if name is None or code.co_name == "<module>":
            return None
        known = self._missing.get(id(code))
        if known is None:
            known = self._missing[id(code)] = code, _lines(code)
        missing = known[1]
        if not missing:
            return None  # Nothing more to learn from this function.
        forget = missing.discard

        def on_line(frame: FrameType, event: str, argument: Any) -> Any:
            forget(frame.f_lineno)
            return on_line

        return on_line

    def _keep(self, test: str) -> None:
        found: dict[str, set[int]] = {}
        for code, missing in self._missing.values():
            found.setdefault(self._names[code.co_filename], set()).update(_lines(code) - missing)
        self._tests[test] = {name: sorted(lines) for name, lines in found.items()}
        self._missing.clear()

    def pytest_collection_finish(self) -> None:
        self._keep(IMPORTS)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        result = yield
        self._keep(item.nodeid)
        return result

    def pytest_sessionfinish(self) -> None:
        sys.settrace(None)
        threading.settrace(None)
        self._output.write_text(json.dumps(self._tests))


def _lines(code: CodeType) -> set[int]:
    return {line for _, _, line in code.co_lines() if line is not None}


def pytest_configure(config: pytest.Config) -> None:
    recorder = LineRecorder(json.loads(os.environ[RECORDED_PATHS]), Path(os.environ[LINES_FILE]))
    config.pluginmanager.register(recorder, "line_recorder")
    recorder.start()
