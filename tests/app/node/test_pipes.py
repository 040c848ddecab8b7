"""Pipes: the example of `examples/folder_pipe`, installed and used; one that is not installed, and one that fails."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.app.edge.test_tree import call, wait_until
from tests.app.processes import RunningBroker, running_broker

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples" / "folder_pipe"
PAGE = ROOT / "docs" / "extending" / "pipes.md"


def test_the_page_shows_the_example_as_it_is() -> None:
    blocks = dict(re.findall(r"```(toml|python)\n(.*?)```", PAGE.read_text(), re.DOTALL))
    assert blocks["toml"] == (EXAMPLE / "pyproject.toml").read_text()
    assert blocks["python"] == (EXAMPLE / "qanat_folder_pipe.py").read_text()


@pytest.fixture
def installed(tmp_path: Path) -> str:
    """Where the example is installed."""
    package, target = tmp_path / "package", tmp_path / "site"
    package.mkdir()
    for name in ("pyproject.toml", "qanat_folder_pipe.py"):
        (package / name).write_text((EXAMPLE / name).read_text())
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    offline = ["--no-index", "--no-deps", "--no-build-isolation", "--target", str(target)]
    subprocess.run([*pip, *offline, str(package)], check=True, capture_output=True, text=True)
    return os.pathsep.join(filter(None, (str(target), os.environ.get("PYTHONPATH"))))


@pytest.mark.long
def test_lines_of_a_folder_become_records_at_their_numbers(tmp_path: Path, installed: str) -> None:
    spool = tmp_path / "spool"
    spool.mkdir()
    lines = spool / "prices.jsonl"
    environment = {"NODE_ID": "pos-1", "QANAT_HTTP_PORT": "0", "BROKER_PORT": "0", "PYTHONPATH": installed}
    registry_environment = {"NODE_ID": "registry", "QANAT_HTTP_PORT": "0", "BROKER_PORT": "0"}
    folders = [tmp_path / name for name in ("registry", "pos-1")]
    for folder in folders:
        folder.mkdir()
    with running_broker(folders[0], "--data-dir", str(folders[0] / "data"), environment=registry_environment) as above:
        registry = str(above.started["http"])
        _place(registry, "spool", {"role": "ROOT", "url": "nosuch://x"})
        _place(registry, "pos-1", {"role": "POS", "parents": ["spool"], "topics": ["prices"]})
        line = ("--data-dir", str(folders[1] / "data"), "-X", "pipe.poll.interval.ms=50")
        node = {**environment, "REGISTRY_URL": registry}
        with running_broker(folders[1], *line, environment=node) as broker:
            wait_until(lambda: "there is no pipe 'nosuch'; installed are folder, http, https" in _fault(broker), "why")
            _place(registry, "spool", {"role": "ROOT", "url": f"folder://{spool}"})
            wait_until(lambda: "FileNotFoundError" in _fault(broker), "that the file is missing")
            lines.write_text('{"key": "AAPL", "value": "189.5"}\n{"value": "140.2"}\n{"key": "half')
            wait_until(lambda: len(_records(broker)) == 2, "two lines")
        with lines.open("a") as file:
            file.write('", "value": "1"}\n')
        with running_broker(folders[1], *line, environment=node) as broker:
            wait_until(lambda: len(_records(broker)) == 3, "the third line")
            assert _records(broker) == [(0, "AAPL", "189.5"), (1, None, "140.2"), (2, "half", "1")]
            assert _fault(broker) == ""


def _place(registry: str, node: str, place: Any) -> None:
    status, answer = call(registry, "PUT", f"/api/v1/edge/nodes/{node}", place)
    assert status == 200, answer


def _fault(broker: RunningBroker) -> str:
    return str(call(str(broker.started["http"]), "GET", "/health")[1]["edge"]["last_fault"])


def _records(broker: RunningBroker) -> list[tuple[int, str | None, str]]:
    status, answer = call(str(broker.started["http"]), "GET", "/consume?topic=prices&offset=0")
    if status != 200:
        return []
    rows = [(one["offset"], one.get("key"), one["value"]) for one in answer["messages"]]
    return [(at, key, value if isinstance(value, str) else json.dumps(value)) for at, key, value in rows]
