"""Micro-batches take about as long as they should, and no less than is worth it."""

from __future__ import annotations

from collections.abc import Callable

from qanat.spark.reads.pace import FIRST_SHARE, LEAST_SHARE, Pace


def shares(seconds_of: Callable[[float], float], count: int, target_s: float = 10.0) -> list[float]:
    """The shares of micro-batches that take as long as the function says."""
    pace, now, found = Pace(target_s), 0.0, []
    for _ in range(count):
        pace.begin(now)
        found.append(pace.share)
        pace.end(now, is_cut=True)
        now += seconds_of(pace.share)
    return found


def test_a_backlog_is_read_in_micro_batches_that_take_the_target_time() -> None:
    found = shares(lambda share: 20 * share, 12)
    assert found[0] == FIRST_SHARE
    assert 9 <= 20 * found[-1] <= 15


def test_fast_queries_use_their_whole_limits() -> None:
    assert shares(lambda share: 2 * share, 6)[-1] == 1.0


def test_slow_queries_get_less_but_not_nothing() -> None:
    assert shares(lambda share: 1000 * share, 20)[-1] == LEAST_SHARE


def test_a_micro_batch_that_is_slow_whatever_its_size_does_not_shrink_to_nothing() -> None:
    found = shares(lambda share: 30 + 10 * share, 20)
    assert found[-1] >= FIRST_SHARE / 2
    assert len(set(found[-5:])) == 1


def test_an_interval_of_the_trigger_does_not_hide_that_micro_batches_are_short() -> None:
    """The trigger waits for the rest of ten seconds."""
    assert shares(lambda share: max(10.0, 5 * share), 15)[-1] == 1.0


def test_micro_batches_that_have_all_there_is_change_nothing() -> None:
    pace = Pace(10.0)
    for now in (0.0, 500.0, 1000.0):
        pace.begin(now)
        pace.end(now, is_cut=False)
    assert pace.share == FIRST_SHARE
    assert pace.of(1000) == 125
    assert pace.of(1) == 1
