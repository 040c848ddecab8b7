"""Health, backoff, and which parent feeds."""

from __future__ import annotations

from random import Random

from qanat.edge.backoff import Backoff, spread
from qanat.edge.health import Health, LagAge, PipeHealth
from qanat.edge.parents import ParentChoice
from qanat.edge.topology import Parent

A, B, C = (Parent(name, f"http://{name}:8080") for name in "abc")


def middle() -> float:
    return 0.5


def choice(*parents: Parent) -> ParentChoice:
    return ParentChoice(parents, middle, 0)


def test_pauses_double_to_nearly_a_minute_and_begin_again_after_a_success() -> None:
    backoff = Backoff(lambda: 1.0)
    assert [backoff.failed() for _ in range(8)] == [1000, 2000, 4000, 8000, 16000, 32000, 55000, 55000]
    backoff.succeeded()
    assert backoff.failed() == 1000


def test_pauses_are_spread_by_chance() -> None:
    draw = Random(1).random
    pauses = [Backoff(draw).failed() for _ in range(1000)]
    assert min(pauses) < 550
    assert max(pauses) > 950
    polls = [spread(30_000, draw) for _ in range(1000)]
    assert 24_000 <= min(polls) < 25_000
    assert 35_000 < max(polls) <= 36_000


def test_three_failures_degrade_and_a_minute_of_silence_is_unhealthy() -> None:
    health = PipeHealth(0)
    health.failed()
    health.failed()
    assert health.at(10_000) is Health.HEALTHY
    health.failed()
    assert health.at(10_000) is Health.DEGRADED
    assert health.at(60_000) is Health.UNHEALTHY


def test_three_successes_in_a_row_are_needed_to_be_healthy_again() -> None:
    health = PipeHealth(0)
    assert health.at(60_000) is Health.UNHEALTHY
    health.succeeded(61_000)
    health.succeeded(62_000)
    health.failed()
    health.succeeded(63_000)
    health.succeeded(64_000)
    assert health.at(64_000) is Health.UNHEALTHY
    health.succeeded(65_000)
    assert health.at(65_000) is Health.HEALTHY


def test_an_old_lag_degrades_a_pipe_that_answers() -> None:
    health = PipeHealth(0)
    health.succeeded(1000, lag_ms=30_001)
    assert health.at(1000) is Health.DEGRADED


def test_the_next_parent_is_taken_after_a_minute_without_a_success() -> None:
    parents = choice(A, B)
    assert parents.failed(30_000) > 0
    assert parents.current is A
    assert parents.failed(60_000) == 0
    assert parents.current is B
    assert parents.failed(119_000) > 0
    assert parents.failed(120_000) > 0
    assert parents.current is A


def test_a_node_returns_to_an_earlier_parent_after_three_probes() -> None:
    parents = choice(A, B)
    parents.failed(60_000)
    now = 60_000
    assert parents.to_probe(now) is None
    for number in range(3):
        now += 60_000
        assert parents.to_probe(now) is A
        assert parents.probed(is_fit=True, now_ms=now) is (number == 2)
    assert parents.current is A
    assert parents.to_probe(now + 100_000) is None


def test_a_failed_probe_counts_from_the_start_and_tries_the_next() -> None:
    parents = choice(A, B, C)
    parents.failed(60_000)
    parents.failed(120_000)
    assert parents.current is C
    parents.probed(is_fit=True, now_ms=200_000)
    parents.probed(is_fit=False, now_ms=300_000)
    assert parents.to_probe(400_000) is B


def test_a_new_list_keeps_a_parent_that_works() -> None:
    parents = choice(A, B)
    assert not parents.replace((C, A), 1000)
    assert parents.current is A
    assert parents.replace((C, B), 1000)
    assert parents.current is C
    assert not parents.replace((C, B), 1000)
    assert parents.replace((), 1000)
    assert parents.current is None


def test_a_silent_parent_is_asked_again_soon_and_one_that_refuses_ever_later() -> None:
    silent, refusing = (ParentChoice((Parent("a", "http://a"),), lambda: 1.0, 0) for _ in range(2))

    assert [silent.failed(0, is_silent=True) for _ in range(5)] == [1_000] * 5
    assert [refusing.failed(0) for _ in range(5)] == [1_000, 2_000, 4_000, 8_000, 16_000]


def test_the_age_of_a_lag_counts_from_when_the_parent_had_what_is_missing() -> None:
    lag = LagAge()
    assert lag.answered(10, 10, 0) == 0
    assert lag.answered(10, 20, 1_000) == 0  # It has just come.
    assert lag.answered(15, 30, 5_000) == 4_000
    assert lag.answered(20, 40, 9_000) == 0  # What it had at 1,000 is here; the next goal counts from now on.
    assert lag.answered(39, 60, 20_000) == 11_000
    assert lag.answered(12, 12, 21_000) == 0  # The parent was truncated.
