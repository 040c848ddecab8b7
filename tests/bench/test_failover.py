"""What is made of the figures of failover; taking them is `make bench-failover`'s."""

from __future__ import annotations

import pytest
from bench.failover import __main__ as command
from bench.failover import rows
from bench.failover.losses import Losses, quantile
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


def test_the_gap_is_judged_beside_kafkas() -> None:
    ours, kafkas = Losses((1.0, 2.0, 3.0), 100, 1, 0), Losses((8.0, 12.0), 100, 0, 0)
    compared = rows.of_kills_compared(ours, kafkas, "Apache Kafka")
    typical, worst, kept = rows.of_kills(ours)

    assert (compared.ours, compared.limit, compared.ratio, compared.verdict) == (2.0, 10.0, 0.2, "met")
    assert (typical.ours, worst.ours) == (2.0, 3.0)
    assert (kept.ours, kept.verdict) == (1, "NOT met")


@pytest.mark.parametrize(
    ("arguments", "reason"), [(("--only", "fly"), "--only knows kill, stop"), (("--tries", "4"), "take at least 5")]
)
def test_what_would_show_nothing_is_refused(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], reason: str
) -> None:
    assert command.main(arguments) == 2
    assert reason in capsys.readouterr().err
