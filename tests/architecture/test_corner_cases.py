"""Every corner case of idempotence, transactions, groups and offsets has a test that bears its number."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
NUMBERS = (*range(30, 44), *range(50, 57))
"""Of the checklist: 30 to 43 idempotence and transactions, 50 to 56 groups and offsets."""


def test_every_corner_case_has_a_test_by_its_number() -> None:
    found = {
        int(number)
        for path in sorted(TESTS.rglob("test_*.py"))
        for number in re.findall(r"^(?:async )?def test_c(\d+)_", path.read_text(), re.MULTILINE)
    }

    assert [f"C{number}" for number in NUMBERS if number not in found] == []
