"""What the last commits of a group say about it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qanat.groups.lag.commit_window import STOPPED_AFTER_MS, WINDOW_COMMITS, CommitWindow, LagState, worst

EVERY_MS = 10_000


def window(*commits: tuple[int, int]) -> CommitWindow:
    """Commits of (offset, lag), ten seconds apart, the first at 0."""
    found = CommitWindow()
    for number, (offset, lag) in enumerate(commits):
        found.observe(offset, lag, number * EVERY_MS, number * EVERY_MS)
    return found


def state(*commits: tuple[int, int], after_ms: int = 0) -> LagState:
    """The state so long after the last commit; its first unread record has waited since the first commit."""
    now_ms = (len(commits) - 1) * EVERY_MS + after_ms
    return window(*commits).state(commits[-1][1], now_ms, now_ms)


FULL = range(WINDOW_COMMITS)


@pytest.mark.parametrize(
    ("commits", "expected"),
    [
        ([(number, 100 - number) for number in FULL], LagState.OK),
        ([(number, 100 + number) for number in FULL], LagState.WARN),
        ([(number, 100) for number in FULL], LagState.WARN),
        ([(7, 100 + number) for number in FULL], LagState.STALLED),
        ([(7, 100)] * WINDOW_COMMITS, LagState.STALLED),
        ([(number, 100 + number) for number in FULL[:-1]], LagState.OK),
        ([(7, 100)] * (WINDOW_COMMITS - 1), LagState.OK),
        ([(number, 0 if number == 3 else 100 + number) for number in FULL], LagState.OK),
        ([(50, 10), (20, 40), (21, 39)], LagState.REWOUND),
        ([(50, 10), (20, 0), (21, 39)], LagState.OK),
    ],
    ids=[
        "catches up",
        "falls behind",
        "keeps its lag",
        "stalls",
        "stalls at one lag",
        "falls behind for a moment",
        "stalls for a moment",
        "was at the end",
        "was reset",
        "was reset and at the end",
    ],
)
def test_states_follow_from_how_offsets_and_lag_move(commits: list[tuple[int, int]], expected: LagState) -> None:
    assert state(*commits) is expected


def test_a_group_without_commits_for_longer_than_its_window_has_stopped() -> None:
    commits = [(number, 100 - number) for number in FULL]
    lasted_ms = (WINDOW_COMMITS - 1) * EVERY_MS

    assert state(*commits, after_ms=lasted_ms) is LagState.OK
    assert state(*commits, after_ms=lasted_ms + 1) is LagState.STOPPED


def test_one_commit_gives_a_group_a_minute() -> None:
    assert state((0, 5), after_ms=STOPPED_AFTER_MS) is LagState.OK
    assert state((0, 5), after_ms=STOPPED_AFTER_MS + 1) is LagState.STOPPED


def test_a_record_on_a_quiet_topic_does_not_stop_its_group() -> None:
    found = window((10, 0))
    hour_ms = 3_600_000

    assert found.state(1, 100.0, hour_ms) is LagState.OK
    assert found.state(1, STOPPED_AFTER_MS + 1.0, hour_ms) is LagState.STOPPED


def test_a_group_without_lag_is_ok_however_long_it_has_been_silent() -> None:
    assert window((10, 5)).state(0, 0.0, 10**9) is LagState.OK


def test_the_same_commit_seen_again_does_not_fill_the_window() -> None:
    found = CommitWindow()
    for _ in range(5 * WINDOW_COMMITS):
        found.observe(7, 100, 0, 0)

    assert found.state(100, 10.0, 10) is LagState.OK


def test_a_commit_without_a_time_was_made_when_its_offset_was_first_seen() -> None:
    found = CommitWindow()
    found.observe(7, 5, None, 1000)
    found.observe(7, 5, None, 50_000)

    assert found.state(5, 10**6, 1000 + STOPPED_AFTER_MS) is LagState.OK
    assert found.state(5, 10**6, 1001 + STOPPED_AFTER_MS) is LagState.STOPPED


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100)), min_size=1, max_size=30), st.integers(0, 10**7))
def test_without_lag_every_history_is_ok(commits: list[tuple[int, int]], now_ms: int) -> None:
    assert window(*commits).state(0, 0.0, now_ms) is LagState.OK


def test_the_worst_state_of_partitions_counts() -> None:
    assert worst([]) is LagState.OK
    assert worst([LagState.WARN, LagState.STOPPED, LagState.OK]) is LagState.STOPPED
    assert [one.severity for one in LagState] == [0, 1, 1, 2, 2]
