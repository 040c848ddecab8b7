"""No command of a page is left out: each is executed, or stands in one table with the reason."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from cyclopts import App, CycloptsError, MissingArgumentError
from tests.documents.blocks import PAGES, ROOT, Block, blocks_of
from tests.documents.tables import EXCEPTED, EXECUTED, exceptions_of, of_test_long
from tests.documents.test_pages import LONG, RUN

from qanat.app.command_tree import build_app

BLOCKS = [block for page in PAGES for block in blocks_of(page)]
GENERIC = "tests/documents/test_pages.py"
_PLACEHOLDER = re.compile(r"(?<!-)\b[A-Z]+\b|…|\.\.\.|[<>|;&$(){}]|\*")


def test_every_block_is_executed_or_excepted_with_a_reason() -> None:
    executed = {page for page, _ in EXECUTED}
    forgotten = [
        f"{block.page}: {block.text.splitlines()[0]}"
        for block in BLOCKS
        if block.page not in executed and not list(exceptions_of(block))
    ]

    assert forgotten == []


def test_the_table_of_executed_pages_is_true() -> None:
    pages = {block.page for block in BLOCKS}

    assert {page for page, _ in EXECUTED} <= pages
    assert {page for page, test in EXECUTED if test == GENERIC} == set(RUN)
    for page, test in EXECUTED:
        name = page.rpartition("/")[2]
        text = (ROOT / test).read_text()
        assert name in text or f'"{name.removesuffix(".md")}"' in text, f"{test} does not read {page}"


def test_the_page_names_what_continuous_integration_does_not_execute() -> None:
    assert of_test_long() == LONG


def test_every_exception_is_about_a_block_that_exists() -> None:
    used = {one for block in BLOCKS for one in exceptions_of(block)}

    assert [one for one in EXCEPTED if one not in used] == []


def commands(page_text: str) -> Iterator[list[str]]:
    """`qanat …` in sentences, if it can be typed."""
    prose = re.sub(r"^```.*?^```", "", page_text, flags=re.DOTALL | re.MULTILINE)
    for command in re.findall(r"(?<!`)`(?:\.venv/bin/)?qanat ([^`\n]+)`", prose):
        if not _PLACEHOLDER.search(command):
            yield shlex.split(command)


def examples(block: Block) -> Iterator[list[str]]:
    """Lines of a block that are one call of `qanat`."""
    joined = block.text.replace("\\\n", " ")
    for line in joined.splitlines():
        found = re.match(r"(?:\.venv/bin/)?qanat ([^|>&;$(`]+)$", line.partition("  #")[0].strip())
        if found and not re.search(r"…|\.\.\.|<", line) and "# refused" not in line:
            yield shlex.split(found[1])


@pytest.fixture(scope="module")
def app() -> App:
    return build_app()


def fault(app: App, words: list[str]) -> str:
    """Why the command line refuses these words; a missing argument is none, because sentences leave some out."""
    if "--help" in words or words[:1] in (["--version"], ["-X"]):  # read before the parser
        return ""
    try:
        app.parse_args(words, print_error=False, exit_on_error=False)
    except MissingArgumentError:
        return ""
    except CycloptsError as refused:
        return f"qanat {shlex.join(words)}: {refused}"
    return ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_call_of_qanat_on_a_page_is_one_that_the_command_line_takes(app: App, page: Path) -> None:
    found = [*commands(page.read_text()), *(words for block in blocks_of(page) for words in examples(block))]

    assert [text for text in (fault(app, words) for words in found) if text] == []


def test_every_extra_that_a_page_names_exists() -> None:
    extras = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    named = {
        (str(page.relative_to(ROOT)), extra)
        for page in PAGES
        for words in re.findall(r"qanat\[([\w,-]+)\]", page.read_text())
        for extra in words.split(",")
    }

    assert named
    assert [one for one in sorted(named) if one[1] not in extras] == []
