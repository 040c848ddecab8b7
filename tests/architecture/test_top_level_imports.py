"""The folders beside the package depend on each other in one direction only."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.architecture.statements import statements

ROOT = Path(__file__).resolve().parents[2]
ALLOWED: dict[str, set[str]] = {
    "src": set(),
    "demo": set(),
    "deploy": set(),
    "tools": set(),
    "bench": {"tools"},
    "verify": {"tools"},
    "tests": {"bench", "demo", "deploy", "tools", "verify"},
}
"""Which other folders a folder imports. All of them import `qanat`."""
FOLDERS = set(ALLOWED) - {"src"}


def imports_of(source: str) -> Iterator[tuple[int, str]]:
    """Each import of a source, inside functions as well: its line and the top-level name."""
    for node in statements(source):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.partition(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.lineno, node.module.partition(".")[0]


def forbidden(folder: str, source: str) -> list[tuple[int, str]]:
    names = FOLDERS - ALLOWED[folder] - {folder}
    if not names or re.search(rf"\b(?:import|from)\b.*\b(?:{'|'.join(names)})\b", source) is None:
        return []  # Most are not worth a parser's time.
    return [(line, name) for line, name in imports_of(source) if name in names]


@pytest.mark.parametrize("folder", sorted(ALLOWED))
def test_a_folder_imports_only_the_folders_it_may(folder: str) -> None:
    sources = sorted((ROOT / folder).rglob("*.py"))
    found = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in sources
        for line, name in forbidden(folder, path.read_text())
    ]

    assert sources
    assert found == []


@pytest.mark.parametrize(
    ("folder", "line", "is_forbidden"),
    [
        ("tools", "from tests.clients import capabilities", True),
        ("tools", "import bench.rounds", True),
        ("bench", "from verify.clusters.run import ClusterRun", True),
        ("verify", "def f():\n    from bench.rounds import Rounds", True),
        ("demo", "from tools.servers import free_port", True),
        ("src", "import demo", True),
        ("verify", "from tools.servers import free_port", False),
        ("tests", "from verify.clusters.run import ClusterRun", False),
        ("bench", "from bench.rounds import Rounds", False),
    ],
)
def test_a_forbidden_import_is_found(folder: str, line: str, is_forbidden: bool) -> None:
    assert bool(forbidden(folder, line)) is is_forbidden
