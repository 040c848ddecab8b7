"""Health, backoff, and which parent feeds."""

from __future__ import annotations

from random import Random

from qanat.edge.backoff import Backoff, spread
from qanat.edge.health import Health, PipeHealth
from qanat.edge.parents import ParentChoice
from qanat.edge.topology import Parent

A, B, C = (Parent(name, f"http://{name}:8080") for name in "abc")


def middle() -> float:
    return 0.5


def choice(*parents: Parent) -> ParentChoice:
    return ParentChoice(parents, middle, 0)


def test_pauses_double_to_a_minute_and_begin_again_after_a_success() -> None:
    backoff = Backoff(lambda: 1.0)
    assert [backoff.failed() for _ in range(8)] == [1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000]
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
