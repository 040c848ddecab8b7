"""A throttle's arithmetic: moved bytes are a debt that is paid off at the rate."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from qanat.replication.throttle import Throttle


def test_nothing_is_exceeded_before_anything_was_moved() -> None:
    assert not Throttle().is_exceeded(100, 0)


def test_more_is_due_once_the_rate_has_paid_for_what_was_moved() -> None:
    throttle = Throttle()
    throttle.spend(1000, 500, 0)
    assert throttle.is_exceeded(500, 1999)
    assert not throttle.is_exceeded(500, 2000)


def test_a_rate_of_nothing_allows_nothing() -> None:
    assert Throttle().is_exceeded(0, 1_000_000)


def test_a_new_rate_counts_from_the_next_look_on() -> None:
    throttle = Throttle()
    throttle.spend(1000, 1, 0)
    assert throttle.is_exceeded(1, 1000)
    assert not throttle.is_exceeded(1000, 2000)


@given(sizes=st.lists(st.integers(1, 5_000), min_size=1, max_size=20), rate=st.integers(500, 5_000))
def test_over_time_no_more_is_moved_than_the_rate_and_one_piece(sizes: list[int], rate: int) -> None:
    throttle, now_ms, moved = Throttle(), 0, 0
    for size in sizes:
        while throttle.is_exceeded(rate, now_ms):
            now_ms += 100
        assert moved <= rate * now_ms / 1000 + 1e-6, "what was moved before is paid for"
        throttle.spend(size, rate, now_ms)
        moved += size
