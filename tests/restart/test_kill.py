"""`kill -9` of a real broker process under load: nothing acknowledged is lost. Longer: `make restart`."""

from __future__ import annotations

from pathlib import Path

import pytest
from verify.restart.kill import kill_again_and_again


@pytest.mark.long
@pytest.mark.data
def test_what_was_acknowledged_before_a_kill_is_there_after_it(tmp_path: Path) -> None:
    ledger, problems = kill_again_and_again(tmp_path, kills=4, seed=1)
    assert problems == []
    assert len(ledger.records) > 200
    assert len(ledger.commits) > 4
