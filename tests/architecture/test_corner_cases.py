"""Every corner case of replication, idempotence, transactions, groups and offsets has a test that bears its number."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
NUMBERS = (*range(1, 25), *range(30, 44), *range(50, 57), *range(80, 85))
"""Of the checklist: 1 to 24 replication, 30 to 43 idempotence and transactions, 50 to 56 groups and offsets, 80 to 84
the store."""


def test_every_corner_case_has_a_test_by_its_number() -> None:
    found = {
        int(number)
        for path in sorted(TESTS.rglob("test_*.py"))
        for number in re.findall(r"^(?:async )?def test_c(\d+)_", path.read_text(), re.MULTILINE)
    }

    assert [f"C{number}" for number in NUMBERS if number not in found] == []
