"""C43: a copy in transactions under kill -9. Longer: python -m verify.exactly_once."""

from __future__ import annotations

from pathlib import Path

import pytest
from verify.exactly_once.conductor import copy_under_kills

RECORDS = 3_000


@pytest.mark.long
@pytest.mark.data
def test_c43_every_record_is_copied_exactly_once_while_copier_and_broker_are_killed(tmp_path: Path) -> None:
    outcome = copy_under_kills(tmp_path, RECORDS, batch=50, kills=6, seed=1)
    assert outcome.problems(RECORDS) == []
    assert min(outcome.kills["copier"], outcome.kills["broker"]) > 0
