"""The two tables of docs/internals/documented-commands.md."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.documents.blocks import ROOT, Block

PAGE = ROOT / "docs" / "internals" / "documented-commands.md"
_EXECUTED, _, _EXCEPTED = PAGE.read_text().partition("## Not executed, or elsewhere")
EXECUTED = [
    (page, test)
    for page, tests in re.findall(r"^\| `([^`]+\.md)` \| (`[^|]+`) \|$", _EXECUTED, re.MULTILINE)
    for test in re.findall(r"`([^`]+)`", tests)
]
"""Each page with a test that executes it, or a part of it."""
EXCEPTED = [
    (page, command.strip("`"), reason)
    for page, command, reason in re.findall(r"^\| `([^`]+\.md)` \| (`[^`]*`|``) \| (.+) \|$", _EXCEPTED, re.MULTILINE)
]


def of_test_long() -> set[str]:
    """The pages that continuous integration has no time for."""
    (line,) = (one for one in _EXECUTED.splitlines() if one.startswith("Only `make test-long` executes "))
    return set(re.findall(r"`([^`]+\.md)`", line))


def exceptions_of(block: Block) -> Iterator[tuple[str, str, str]]:
    """The lines of the second table that a block is under."""
    for page, command, reason in EXCEPTED:
        if page == block.page and block.text.startswith(command):
            yield page, command, reason
