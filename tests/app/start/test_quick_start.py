"""`quick_start` reads the same as the parser, or leaves the command line to it."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping

import pytest

from qanat.app import main
from qanat.app.node import serving
from qanat.app.node.serving import StartFlags
from qanat.app.start import quick_start, start


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    yield
    gc.enable()


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[StartFlags]:
    """What either way would have started."""
    seen: list[StartFlags] = []

    def serve(flags: StartFlags, environment: Mapping[str, str], presets: object = ()) -> int:
        flags.assignments = list(flags.assignments)
        seen.append(flags)
        return 0

    monkeypatch.setattr(serving, "serve", serve)
    monkeypatch.setattr(start, "serve", serve)
    return seen


@pytest.mark.parametrize(
    "line",
    [
        "",
        "--port 9093",
        "--port=9093 --data-dir ./data --node-id local-001",
        "-X a=1 -X b=2 --host 0.0.0.0",
        "-c qanat.yml --log-format json --log-level debug",
        "--config=qanat.yml",
    ],
)
def test_both_ways_read_a_plain_line_alike(served: list[StartFlags], line: str) -> None:
    assert quick_start.quick_start(line.split()) == 0
    assert main._run_command(["start", *line.split()]) == 0

    assert served[0] == served[1]


@pytest.mark.parametrize(
    "line",
    [
        "--help",
        "--port",
        "--port many",
        "--port -1",
        "--prot 9092",
        "--log-format xml",
        "--port 1 --port 2",
        "here",
        "-X",
    ],
)
def test_what_is_not_plain_is_left_to_the_parser(served: list[StartFlags], line: str) -> None:
    assert quick_start.quick_start(line.split()) is None
    assert served == []


def test_the_short_way_needs_no_parser() -> None:
    import subprocess
    import sys

    program = (
        "import sys; from qanat.app.main import run; code = run(['start', '-X', 'nonsense=1']);"
        "print(code, sorted({'cyclopts', 'rich', 'yaml'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert result.stdout == "1 []\n"
