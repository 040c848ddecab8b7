"""The lag of a group over a day."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from qanat.groups.lag.history import COARSE_MS, FINE_MS, FULL_CAPACITY, SMALLEST_CAPACITY, LagHistory, LagPoint

STEP_MS = 10_000
DAY_STEPS = COARSE_MS // STEP_MS


def test_a_day_is_an_hour_of_every_pass_and_the_rest_by_minutes() -> None:
    history = LagHistory()
    for number in range(2 * DAY_STEPS):
        history.append(LagPoint(number * STEP_MS, number, 0.0), FULL_CAPACITY)
    points = history.points()
    now_ms = points[-1].at_ms
    fine = [one for one in points if one.at_ms > now_ms - FINE_MS]
    coarse = [one for one in points if one.at_ms <= now_ms - FINE_MS]

    assert len(history) <= FULL_CAPACITY
    assert len(fine) == 360
    assert coarse[0].at_ms <= now_ms - 23 * FINE_MS
    assert {later.at_ms - before.at_ms for before, later in itertools.pairwise(coarse)} == {60_000}


def test_a_lag_that_stays_the_same_needs_two_points_of_each_kind() -> None:
    history = LagHistory()
    for number in range(DAY_STEPS):
        history.append(LagPoint(number * STEP_MS, 7, 0.5), FULL_CAPACITY)

    assert len(history) <= 4
    assert history.points()[-1] == LagPoint((DAY_STEPS - 1) * STEP_MS, 7, 0.5)


@given(st.lists(st.tuples(st.integers(1, 300_000), st.integers(0, 3)), max_size=300), st.integers(0, 100))
def test_points_are_in_order_within_a_day_and_within_the_capacity(steps: list[tuple[int, int]], capacity: int) -> None:
    history, now_ms = LagHistory(), 0
    for pause_ms, records in steps:
        now_ms += pause_ms
        history.append(LagPoint(now_ms, records, float(records)), capacity)
        assert len(history) <= max(capacity, SMALLEST_CAPACITY)

    times = [one.at_ms for one in history.points()]
    assert times == sorted(set(times))
    assert not steps or times[-1] == now_ms
    assert all(at_ms >= now_ms - COARSE_MS for at_ms in times[1:])
