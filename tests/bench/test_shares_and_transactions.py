"""`python -m bench.shares` and `bench.transactions` in short: both sides are measured, and a ratio is printed."""

from __future__ import annotations

import pytest

from bench import shares, transactions


@pytest.mark.long
def test_share_groups_are_measured_beside_ordinary_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert shares.main(["--rounds", "1", "--records", "2000"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "8 clients as a consumer group",
        "8 clients as a share group, each record acknowledged",
        "ratio",
    ]


@pytest.mark.long
def test_transactions_are_measured_beside_plain_producing(capsys: pytest.CaptureFixture[str]) -> None:
    assert transactions.main(["--rounds", "1", "--seconds", "0.3"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["plain idempotent", "with commits every 100 ms", "ratio"]
