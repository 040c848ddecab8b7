"""When a record was appended, by the ends that were seen."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from qanat.groups.lag.end_offsets import SMALLEST_CAPACITY, Age, EndOffsets

CAPACITY = 16
STEPS = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 100)), min_size=1, max_size=200)
"""Records and milliseconds between two observations."""


def seen(*rows: tuple[int, int], capacity: int = 100) -> EndOffsets:
    ends = EndOffsets()
    for end, now_ms in rows:
        ends.observe(end, now_ms, capacity)
    return ends


def test_a_record_between_two_ends_is_dated_between_their_times() -> None:
    ends = seen((0, 0), (100, 1000))

    assert ends.age(49, 1000) == Age(500.0, is_exact=True)
    assert ends.age(99, 1000) == Age(0.0, is_exact=True)
    assert ends.age(0, 2000) == Age(1990.0, is_exact=True)


def test_a_record_after_a_quiet_hour_is_not_half_an_hour_old() -> None:
    ends = seen((10, 0), (10, 3_590_000), (11, 3_600_000))

    assert ends.age(10, 3_600_000).ms == 0
    assert len(ends) == 2


def test_what_nobody_has_appended_yet_has_not_waited() -> None:
    assert seen((5, 0)).age(5, 900).ms == 0
    assert EndOffsets().age(0, 900) == Age(0.0, is_exact=True)


def test_a_record_from_before_the_first_look_has_waited_at_least_since_then() -> None:
    assert seen((50, 100), (60, 200)).age(3, 700) == Age(600.0, is_exact=False)


def test_an_end_that_goes_back_begins_anew() -> None:
    ends = seen((50, 100), (60, 200), (10, 300))

    assert (len(ends), ends.end) == (1, 10)
    assert ends.age(4, 400) == Age(100.0, is_exact=False)


def test_a_clock_that_goes_back_begins_anew() -> None:
    assert len(seen((50, 100), (60, 50))) == 1


def test_a_capacity_of_nothing_still_keeps_a_few() -> None:
    ends = seen(*((number, number) for number in range(50)), capacity=0)

    assert 2 <= len(ends) <= SMALLEST_CAPACITY
    assert ends.age(0, 49).is_exact


@given(STEPS)
def test_every_age_lies_between_the_observations_around_the_record(steps: list[tuple[int, int]]) -> None:
    ends, end, now_ms = EndOffsets(), 0, 0
    appended: dict[int, tuple[int, int]] = {}
    ends.observe(0, 0, 10_000)
    for records, pause_ms in steps:
        appended |= {end + number: (now_ms, now_ms + pause_ms) for number in range(records)}
        end, now_ms = end + records, now_ms + pause_ms
        ends.observe(end, now_ms, 10_000)

    for offset, (after_ms, before_ms) in appended.items():
        age = ends.age(offset, now_ms)
        assert age.is_exact
        assert now_ms - before_ms - 1e-6 <= age.ms <= now_ms - after_ms + 1e-6


@given(STEPS)
def test_a_bounded_ring_keeps_its_first_entry_and_later_records_are_younger(steps: list[tuple[int, int]]) -> None:
    ends, end, now_ms = EndOffsets(), 0, 0
    ends.observe(0, 0, CAPACITY)
    for records, pause_ms in steps:
        end, now_ms = end + records, now_ms + pause_ms
        ends.observe(end, now_ms, CAPACITY)
        assert len(ends) <= CAPACITY

    ages = [ends.age(offset, now_ms) for offset in range(end + 1)]
    assert all(age.is_exact for age in ages)
    assert all(later.ms <= earlier.ms + 1e-6 for earlier, later in itertools.pairwise(ages))
    assert ages[-1].ms == 0


@given(st.integers(1, 1000), st.integers(100, 10_000))
def test_a_steady_writer_is_dated_exactly_by_a_thinned_ring(rate: int, passes: int) -> None:
    ends = EndOffsets()
    for number in range(min(passes, 2000) + 1):
        ends.observe(number * rate, number * 1000, CAPACITY)
    end, now_ms = min(passes, 2000) * rate, min(passes, 2000) * 1000

    for offset in (0, end // 3, end // 2, end - 1):
        assert abs(ends.age(offset, now_ms).ms - (now_ms - (offset + 1) / rate * 1000)) < 0.01
