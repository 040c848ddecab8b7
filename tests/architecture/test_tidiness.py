"""The tree stays tidy: sizes, names, docstrings, and nothing that only works on one machine."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest
from tests.architecture.statements import statements

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "qanat"
SOURCES = sorted(PACKAGE.rglob("*.py"))

LONGEST_FILE_LINES = 500
LARGEST_FOLDER = 30
# One module per API of the protocol, generated: its length is the protocol's, and no engineer edits it.
GENERATED = PACKAGE / "wire" / "kafka" / "messages"
DRAWERS = {"utils", "util", "helpers", "helper", "common", "manager", "base", "impl", "misc"}

# Spelled in pieces, so that this file does not find itself.
LEFTOVERS = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|X" + r"XX)\b")
MACHINE_PATHS = re.compile(r"(?<![\w.])/(?:ro" + r"ot|ho" + r"me/\w|wo" + r"rk|Us" + r"ers/\w)(?:/|\b)")
INDEX_SETTINGS = re.compile(
    r"--(?:extra-)?index" + r"-url|--find" + r"-links|--trusted" + r"-host|PIP_FIND" + r"_LINKS"
)
INDEX_ADDRESSES = re.compile(
    r"https?://[^\s\"']*(?:/simp" + r"le\b|pypi|files\.python" + r"hosted|artifactory|nexus)", re.IGNORECASE
)

IMPURE = {"asyncio", "os", "random", "secrets", "socket", "threading", "time"}
CORES = ("model", "wire", "log", "replication", "groups", "transactions", "cluster", "security")
SHELLS = set((PACKAGE / "log" / "runtime").glob("*.py"))


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def git_files() -> list[str]:
    if shutil.which("git") is None:
        return []
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    return [entry for entry in listing.stdout.split("\0") if entry]


VENDORED = "src/qanat/console/vendor/"
"""Unmodified files of others."""


def tracked_texts() -> Iterator[tuple[str, str]]:
    """Every file of ours that git tracks and that is text, or every source where there is no git."""
    for entry in git_files() or [name(path) for path in SOURCES]:
        path = ROOT / entry
        if path.is_file() and not entry.startswith(VENDORED):
            content = path.read_bytes()
            if b"\0" not in content:
                yield entry, content.decode(errors="replace")


def imported_by(path: Path) -> set[str]:
    """The top-level names of everything that a module imports, inside functions as well."""
    names: set[str] = set()
    for node in statements(path.read_text()):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.split(".")[0])
    return names


def has_docstring(source: str) -> bool:
    return source.startswith('"""') or bool(ast.get_docstring(ast.parse(source)))


def calls_print(path: Path) -> bool:
    source = path.read_text()
    if "print(" not in source:
        return False
    calls = [node.func for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return any(isinstance(function, ast.Name) and function.id == "print" for function in calls)


def test_source_files_are_short_enough_to_read() -> None:
    written = [path for path in SOURCES if GENERATED not in path.parents]
    too_long = [name(path) for path in written if len(path.read_text().splitlines()) > LONGEST_FILE_LINES]

    assert too_long == [], "split them by noun"


def test_folders_are_small_enough_to_look_through() -> None:
    tops = (PACKAGE, ROOT / "bench", ROOT / "verify", ROOT / "tools")
    folders = [folder for top in tops for folder in (top, *sorted(top.rglob("*/"))) if folder != GENERATED]
    sizes = {name(folder): len(list(folder.glob("*.py"))) for folder in folders}

    assert {folder: size for folder, size in sizes.items() if size > LARGEST_FOLDER} == {}, "split them by noun"


def test_every_module_says_what_it_is() -> None:
    assert [name(path) for path in SOURCES if not has_docstring(path.read_text())] == []


def test_every_module_is_named_after_its_subject() -> None:
    modules = [path.parent if path.stem == "__init__" else path for path in SOURCES]

    assert [name(path) for path in modules if path.stem.strip("_") in DRAWERS] == []


def test_only_programs_print() -> None:
    programs = [path for path in SOURCES if PACKAGE / "app" in path.parents or path.stem == "__main__"]

    assert [name(path) for path in SOURCES if path not in programs and calls_print(path)] == []


def test_cores_import_neither_clock_nor_chance_nor_world() -> None:
    modules = [path for core in CORES for path in sorted((PACKAGE / core).rglob("*.py")) if path not in SHELLS]

    assert [(name(path), found) for path in modules if (found := imported_by(path) & IMPURE)] == []


@pytest.mark.parametrize(
    ("pattern", "what"),
    [
        (LEFTOVERS, "leftover notes"),
        (MACHINE_PATHS, "paths of one machine"),
        (INDEX_SETTINGS, "package index settings"),
        (INDEX_ADDRESSES, "package index addresses"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_no_tracked_file_holds(pattern: re.Pattern[str], what: str) -> None:
    found = [
        f"{entry}:{number}: {line.strip()}"
        for entry, text in tracked_texts()
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]

    assert not found, what


def test_constraints_are_names_and_versions_only() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]

    assert pins
    assert [line for line in pins if not re.fullmatch(r"[\w.-]+==[\w.!+-]+", line)] == []


def test_compiled_modules_are_not_older_than_their_sources() -> None:
    binaries = [(path, path.with_name(path.stem + suffix)) for path in SOURCES for suffix in EXTENSION_SUFFIXES]
    stale = [
        name(binary)
        for source, binary in binaries
        if binary.exists() and binary.stat().st_mtime < source.stat().st_mtime
    ]

    assert stale == [], "run make setup: the compiled module hides its newer source"
