"""What a follower does with its leader's response (C01 to C03, C06)."""

from __future__ import annotations

import pytest

from qanat.model.error_codes import ErrorCode
from qanat.replication.follower import Append, Epoch, StartAt, Truncate, Wait, next_step


def test_records_are_taken() -> None:
    assert next_step(ErrorCode.NONE, None, None, 0, 0, 10) == Append()


def test_c01_a_copy_is_cut_where_the_leaders_epoch_ended() -> None:
    assert next_step(ErrorCode.NONE, Epoch(3, 20), Epoch(3, 25), 0, 0, 30) == Truncate(20)


def test_c02_a_copy_that_is_shorter_there_is_cut_at_its_own_end_of_the_epoch() -> None:
    assert next_step(ErrorCode.NONE, Epoch(3, 20), Epoch(3, 15), 0, 0, 30) == Truncate(15)


def test_c03_an_epoch_that_we_do_not_have_sends_us_back_to_our_own_before_it() -> None:
    assert next_step(ErrorCode.NONE, Epoch(4, 50), Epoch(2, 12), 0, 0, 30) == Truncate(12)


def test_c03_a_copy_with_nothing_in_common_starts_from_nothing() -> None:
    assert next_step(ErrorCode.NONE, Epoch(4, 50), Epoch(-1, -1), 0, 0, 30) == Truncate(0)


@pytest.mark.parametrize("error", [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER])
def test_c06_who_is_behind_the_times_waits_for_news(error: ErrorCode) -> None:
    assert next_step(error, None, None, 0, 0, 10) == Wait(is_stale=True)


def test_c06_a_leader_that_does_not_know_its_epoch_yet_is_asked_again_and_nothing_is_cut() -> None:
    assert next_step(ErrorCode.UNKNOWN_LEADER_EPOCH, None, None, 0, 0, 10) == Wait(is_stale=False)


def test_c21_a_leader_that_starts_later_makes_us_begin_anew() -> None:
    assert next_step(ErrorCode.OFFSET_OUT_OF_RANGE, None, None, 100, 0, 10) == StartAt(100)
    assert next_step(ErrorCode.OFFSET_OUT_OF_RANGE, None, None, 5, 0, 10) == Wait(is_stale=False)


def test_an_empty_copy_that_is_ahead_of_its_leader_begins_anew() -> None:
    assert next_step(ErrorCode.OFFSET_OUT_OF_RANGE, None, None, 3, 50, 50) == StartAt(3)


def test_a_leader_that_starts_exactly_where_we_end_has_lost_nothing_of_ours() -> None:
    assert next_step(ErrorCode.OFFSET_OUT_OF_RANGE, None, None, 10, 0, 10) == Wait(is_stale=False)


def test_c03_the_very_first_epoch_is_one_to_go_back_to() -> None:
    assert next_step(ErrorCode.NONE, Epoch(4, 50), Epoch(0, 12), 0, 0, 30) == Truncate(12)
