"""What is made of the figures of failover; taking them is `make bench-failover`'s."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.failover.losses import Losses, quantile
from bench.failover.page import section, write
from tools.clients import SteadyWriter


@pytest.mark.parametrize(("share", "value"), [(0.5, 50), (0.99, 99), (0.0, 1), (1.0, 100)])
def test_a_quantile_is_a_value_that_so_many_are_not_above(share: float, value: int) -> None:
    assert quantile(range(1, 101), share) == value


def test_of_few_values_the_last_percent_is_the_worst() -> None:
    found = Losses((0.3, 2.0, 0.5), 100, 0, 0)
    assert (found.typical_s, found.p99_s, found.worst_s) == (0.5, 2.0, 2.0)


def test_a_gap_counts_from_the_last_acknowledgement_before_the_leader_went() -> None:
    writer = SteadyWriter("127.0.0.1:1", "steady")
    writer.acknowledged = [(at, b"", 0) for at in (1.0, 2.0, 5.0, 5.5)] + [(at, b"", 1) for at in (2.0, 4.0, 5.5)]
    assert writer.longest_gap_s(2.5) == 3.0
    assert writer.longest_gap_s(5.2) == 1.5


def test_the_section_is_written_between_its_marks_and_nothing_else_is_touched(tmp_path: Path) -> None:
    page = tmp_path / "performance-cluster.md"
    page.write_text("# Performance of a cluster\n\n## In simulation\n\nfigures\n")
    for figure in ("1.00 s", "2.00 s"):
        write(page, section([("a gap", figure, "≤ 3 s", "met")], [("10", "20 MiB", "1%", "3", "0.1 s")], "a machine"))
    text = page.read_text()
    assert "## In simulation\n\nfigures\n" in text
    assert "| a gap | 2.00 s | ≤ 3 s | met |" in text
    assert "1.00 s" not in text
    assert text.count("## Three brokers") == 1
