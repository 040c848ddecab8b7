"""Retry policies, durations, and the stages of a stop."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qanat.client.app.durations import seconds, span_s
from qanat.client.app.retry import NO_RETRY, Retry
from qanat.client.app.shutdown import Shutdown, Stage

FAULT = OSError("away")


def test_durations_are_written_as_people_write_them() -> None:
    assert [seconds(one) for one in ("250ms", "1s", "5m", "2h", "1d", "1.5", 3, timedelta(minutes=1))] == [
        0.25,
        1.0,
        300.0,
        7200.0,
        86400.0,
        1.5,
        3.0,
        60.0,
    ]
    assert span_s("1s..5m") == (1.0, 300.0)
    assert span_s("2s") == (2.0, 2.0)


@pytest.mark.parametrize("wrong", ["soon", "5 parsecs", "-1s", "", "s", "nan", "inf"])
def test_a_word_that_is_no_duration_is_refused_with_the_expected_form(wrong: str) -> None:
    with pytest.raises(ValueError, match="no duration: write a number and ms, s, m, h or d"):
        seconds(wrong)


def test_a_range_from_long_to_short_is_refused() -> None:
    with pytest.raises(ValueError, match="longer than its last"):
        Retry(backoff="5m..1s")


def test_pauses_double_up_to_the_longest() -> None:
    retry = Retry(backoff="1s..10s")
    assert [retry.pause_s(attempt, FAULT, 1.0) for attempt in range(1, 7)] == [1, 2, 4, 8, 10, 10]


def test_the_last_attempt_gives_up() -> None:
    retry = Retry(3, backoff="1s")
    assert [retry.pause_s(attempt, FAULT, 1.0) for attempt in (1, 2, 3)] == [1.0, 1.0, None]
    assert NO_RETRY.pause_s(1, FAULT, 0.0) is None


def test_exceptions_outside_the_filter_are_given_up_at_once() -> None:
    retry = Retry(backoff="1s", on=OSError, never=FileNotFoundError)
    assert retry.pause_s(1, FAULT, 1.0) == 1.0
    assert retry.pause_s(1, ValueError("x"), 1.0) is None
    assert retry.pause_s(1, FileNotFoundError("x"), 1.0) is None


def test_less_than_one_attempt_is_refused() -> None:
    with pytest.raises(ValueError, match="at least once"):
        Retry(0)


@given(attempt=st.integers(1, 10_000), jitter=st.floats(0, 1))
def test_jitter_stays_between_half_and_all_of_the_pause(attempt: int, jitter: float) -> None:
    pause = Retry(backoff="1s..5m").pause_s(attempt, FAULT, jitter)
    assert pause is not None
    assert 0.5 <= pause <= 300.0


def test_the_first_signal_drains_and_the_second_stops_at_once() -> None:
    shutdown = Shutdown(grace_s=30.0)
    assert shutdown.decide(5.0) is Stage.RUNNING
    assert shutdown.signal(10.0) is Stage.DRAINING
    assert shutdown.decide(39.9) is Stage.DRAINING
    assert shutdown.signal(11.0) is Stage.STOPPING


def test_the_end_of_the_grace_stops() -> None:
    shutdown = Shutdown(grace_s=30.0)
    shutdown.signal(10.0)
    assert shutdown.deadline_s == 40.0
    assert shutdown.decide(40.0) is Stage.STOPPING
