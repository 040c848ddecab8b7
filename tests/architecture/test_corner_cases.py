"""The page of corner cases names the tests of every case, or lists it as not covered."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
PAGE = ROOT / "docs" / "internals" / "corner-cases.md"
NUMBERS = (*range(1, 25), *range(30, 45), *range(50, 57), *range(60, 72), *range(80, 89))
"""Of the checklist: 1 to 24 replication, 30 to 44 idempotence and transactions, 50 to 56 groups and offsets, 60 to 71
storage and clocks, 80 to 86 the store and edge brokers, 87 and 88 changes of ACLs."""


def numbered_tests() -> dict[int, set[str]]:
    """The files whose tests bear a case's number."""
    found: dict[int, set[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for number in re.findall(r"^(?:async )?def test_c(\d+)_", path.read_text(), re.MULTILINE):
            found.setdefault(int(number), set()).add(str(path.relative_to(ROOT)))
    return found


def rows() -> dict[int, set[str]]:
    """The files that the page's table names for each case."""
    listed = re.findall(r"^\| C(\d+) \|.*\| ([^|]*) \|$", PAGE.read_text(), re.MULTILINE)
    return {int(number): set(re.findall(r"`(tests/[\w/]+\.py)`", files)) for number, files in listed}


def not_covered() -> set[int]:
    """The cases that the page says have no test of their number yet."""
    part = PAGE.read_text().partition("## Not covered yet")[2]
    return {int(number) for number in re.findall(r"^- \*\*C(\d+)\*\*", part, re.MULTILINE)}


def test_every_corner_case_has_a_row_or_is_named_as_not_covered() -> None:
    missing = [f"C{number}" for number in NUMBERS if number not in rows() and number not in not_covered()]

    assert missing == []
    assert sorted(set(rows()) - set(NUMBERS)) == []
    assert sorted(set(rows()) & not_covered()) == [], "a case is covered or it is not"


def test_a_row_names_exactly_the_files_whose_tests_bear_the_number() -> None:
    found = numbered_tests()
    wrong = [
        f"C{number:02d}: {', '.join(f'`{file}`' for file in sorted(found.get(number, ())))}"
        for number, files in rows().items()
        if found.get(number, set()) != files
    ]

    assert wrong == [], "this is what the rows should say"


def test_what_is_not_covered_has_no_test_by_its_number() -> None:
    assert sorted(not_covered() & set(numbered_tests())) == []
