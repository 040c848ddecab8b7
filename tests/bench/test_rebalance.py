"""`python -m bench.rebalance` in short: it takes groups through all their stages, and says what it found."""

from __future__ import annotations

import pytest

from bench import rebalance


@pytest.mark.long
def test_groups_of_both_protocols_are_taken_through_all_stages(capsys: pytest.CaptureFixture[str]) -> None:
    assert rebalance.main(["--members", "6", "--rounds", "1"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        f"{protocol} protocol, {stage}"
        for protocol in ("new", "classic")
        for stage in ("6 come at once", "one more comes", "one leaves")
    ]
