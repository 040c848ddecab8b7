"""docs/client/pitfalls.md: each pitfall names tests, and each of them exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "client" / "pitfalls.md"


def rows() -> list[str]:
    return [line for line in PAGE.read_text().splitlines() if line.startswith("| ")][2:]


def test_every_pitfall_names_tests_that_exist() -> None:
    assert len(rows()) >= 12
    for row in rows():
        named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", row)
        assert named, f"no test is named: {row[:80]}"
        for path, name in named:
            assert f"def {name}(" in (ROOT / path).read_text(), f"{path} has no test {name}"
