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
from types import FrameType
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
        self._seen: set[tuple[str, int]] = set()
        self._tests: dict[str, dict[str, list[int]]] = {}

    def start(self) -> None:
        threading.settrace(self._on_call)
        sys.settrace(self._on_call)

    def _on_call(self, frame: FrameType, event: str, argument: Any) -> Any:
        name = self._names.get(frame.f_code.co_filename)
        if name is None or frame.f_code.co_name == "<module>":
            return None
        add = self._seen.add

        def on_line(frame: FrameType, event: str, argument: Any) -> Any:
            add((name, frame.f_lineno))
            return on_line

        return on_line

    def _keep(self, test: str) -> None:
        found: dict[str, list[int]] = {}
        for name, line in sorted(self._seen):
            found.setdefault(name, []).append(line)
        self._tests[test] = found
        self._seen.clear()

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


def pytest_configure(config: pytest.Config) -> None:
    recorder = LineRecorder(json.loads(os.environ[RECORDED_PATHS]), Path(os.environ[LINES_FILE]))
    config.pluginmanager.register(recorder, "line_recorder")
    recorder.start()
