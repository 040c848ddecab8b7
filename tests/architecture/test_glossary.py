"""Modules and public names use the glossary's words, and none of its "not this" column."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "internals" / "glossary.md"
FOLDERS = ("src/qanat", "verify", "bench", "tools", "demo")
# One module per API of the protocol, generated: its names are the protocol's.
GENERATED = ROOT / "src" / "qanat" / "wire" / "kafka" / "messages"


@cache
def words_to_use() -> dict[str, str]:
    """What to say instead, by each entry of the column "not this"."""
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \| ([^|]*) ?\|$", PAGE.read_text(), re.MULTILINE)
    return {
        avoided.strip(): word
        for word, column in rows
        if word not in ("word", "---")
        for avoided in column.split(",")
        if avoided.strip()
    }


def words_of(name: str) -> str:
    """`told_count`, `ToldCount` and `TOLD_COUNT` as " told count "."""
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)
    return f" {' '.join(part.lower() for part in parts)} "


def declared_in(body: list[ast.stmt]) -> Iterator[str]:
    """Names of classes, functions, constants and attributes in class bodies; not what functions have inside."""
    for statement in body:
        match statement:
            case ast.ClassDef():
                yield statement.name
                yield from declared_in(statement.body)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield statement.name
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.Assign():
                for target in statement.targets:
                    yield from (node.id for node in ast.walk(target) if isinstance(node, ast.Name))
            case ast.If() | ast.Try():
                yield from declared_in([*statement.body, *statement.orelse])


def public_names(root: Path) -> Iterator[tuple[str, str]]:
    """Every file with each of its public names, the module's own among them."""
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            if GENERATED in path.parents:
                continue
            module = path.parent.name if path.stem == "__init__" else path.stem
            for name in sorted({module, *declared_in(ast.parse(path.read_text()).body)}):
                if not name.startswith("_"):
                    yield str(path.relative_to(root)), name


@cache
def avoided_names(root: Path) -> dict[tuple[str, str], str]:
    """Names that use an avoided word, each with what to say instead."""
    avoided = re.compile(rf" ({'|'.join(words_to_use())}) ")
    return {
        (file, name): f"{file}: {name}: say {words_to_use()[found[1]]}, not {found[1]}"
        for file, name in public_names(root)
        if (found := avoided.search(words_of(name)))
    }


def test_the_glossary_says_what_to_use_instead() -> None:
    assert words_to_use()["lone"] == "fast path"
    assert words_to_use()["let go"] == "release"


def test_the_glossary_uses_none_of_the_words_that_it_avoids() -> None:
    words = re.findall(r"^\| ([^|]+) \| ", PAGE.read_text(), re.MULTILINE)

    assert [word for word in words for avoided in words_to_use() if f" {avoided} " in words_of(word)] == []


def test_names_use_the_words_of_the_glossary() -> None:
    found = avoided_names(ROOT)

    assert list(found.values()) == []
