"""The threat model has a row for every class of failure, which names tests that exist, or says why there are none."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "security" / "threat-model.md").read_text()
CLASSES = (
    "a fast path skips authentication",
    "a client poses as a replica",
    "nonce, channel binding or proof of SCRAM unchecked",
    "timing tells secrets, or which users exist",
    "memory or time of strangers",
    "compressed bombs",
    "a URL, file, class or command from a client",
    "forged tokens",
    "names of certificates",
    "a deny is overridden",
    "administration unchecked",
    "rules lost",
    "secrets in logs, `repr`, DescribeConfigs, metrics",
    "a connection outlives its right",
    "a buffer is reused in flight",
    "a nonce of encryption at rest is used twice",
)


def rows(heading: str) -> dict[str, str]:
    """The last cell of each row of a table, by its first."""
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")][2:]
    return {line.split(" | ")[0].removeprefix("| "): line.rsplit(" | ", 1)[1].removesuffix(" |") for line in lines}


@cache
def functions(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text())
    return frozenset(one.name for one in tree.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))


def missing(text: str) -> list[str]:
    """Names of tests that do not exist."""
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text)
    return [
        f"{path}::{name}"
        for path, name in named
        if not (ROOT / path).exists() or not name.startswith("test_") or name not in functions(path)
    ]


def test_every_class_of_failure_has_a_row() -> None:
    assert tuple(rows("What went wrong elsewhere")) == CLASSES


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_of_failure_names_tests_that_exist_or_says_why_there_are_none(name: str) -> None:
    cell = rows("What went wrong elsewhere")[name]

    assert "::test_" in cell or cell.startswith("not here: ")
    assert missing(cell) == []


def test_every_protection_names_tests_that_exist() -> None:
    for name, cell in rows("What is protected").items():
        assert "::test_" in cell, name
        assert missing(cell) == []


def test_a_test_that_does_not_exist_is_noticed() -> None:
    assert missing("`tests/architecture/test_threats.py::test_nothing`") != []
    assert missing("`tests/architecture/test_nothing.py::test_nothing`") != []
