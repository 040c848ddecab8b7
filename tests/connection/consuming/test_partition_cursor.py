"""Where a partition is fetched next: resets, leaders, truncation."""

from __future__ import annotations

import pytest

from qanat.connection.consuming.partition_cursor import Need, PartitionCursor, Reset
from qanat.model.error_codes import ErrorCode


def need_of(cursor: PartitionCursor) -> Need:
    return cursor.need


def reading(policy: Reset = Reset.EARLIEST, offset: int = 10, epoch: int = 3) -> PartitionCursor:
    cursor = PartitionCursor(policy)
    cursor.seek(offset)
    cursor.led_by(1, epoch)
    cursor.advanced(offset, epoch)
    assert need_of(cursor) is Need.FETCH
    return cursor


def test_a_new_cursor_needs_an_offset_then_a_leader() -> None:
    cursor = PartitionCursor(Reset.LATEST)
    assert need_of(cursor) is Need.OFFSET
    cursor.seek(5)
    assert need_of(cursor) is Need.LEADER
    cursor.led_by(1, 0)
    assert need_of(cursor) is Need.FETCH


@pytest.mark.parametrize("policy", [Reset.EARLIEST, Reset.LATEST])
def test_without_a_committed_offset_the_policy_decides(policy: Reset) -> None:
    cursor = PartitionCursor(policy)
    cursor.has_no_offset("t-0")

    assert (cursor.need, cursor.reset_to) == (Need.RESET, policy)


def test_without_a_committed_offset_and_a_policy_it_fails() -> None:
    cursor = PartitionCursor(Reset.ERROR)
    cursor.has_no_offset("t-0")

    assert need_of(cursor) is Need.NOTHING
    assert "t-0 has no committed offset" in cursor.failure
    cursor.seek(3)
    assert need_of(cursor) is Need.LEADER


def test_an_offset_out_of_range_is_reported_once_and_reset() -> None:
    cursor = reading()
    message = cursor.refused(ErrorCode.OFFSET_OUT_OF_RANGE, "t-0", 100)

    assert message is not None
    assert "offset 10 of t-0 is not there; it begins at 100" in message
    assert "earliest" in message
    assert need_of(cursor) is Need.RESET
    cursor.seek(100)
    assert need_of(cursor) is Need.FETCH


def test_an_offset_out_of_range_fails_where_the_policy_says_so() -> None:
    cursor = reading(Reset.ERROR)
    message = cursor.refused(ErrorCode.OFFSET_OUT_OF_RANGE, "t-0")

    assert message == cursor.failure
    assert need_of(cursor) is Need.NOTHING


@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH])
def test_another_leader_is_looked_up_without_a_word(code: ErrorCode) -> None:
    cursor = reading()
    token = cursor.token

    assert cursor.refused(code, "t-0") is None
    assert need_of(cursor) is Need.LEADER
    assert cursor.token > token


def test_a_new_leader_epoch_is_validated_first() -> None:
    cursor = reading()
    cursor.led_by(2, 4)
    assert need_of(cursor) is Need.VALIDATION

    assert cursor.validated(3, 10, "t-0") is None
    assert need_of(cursor) is Need.FETCH


def test_an_older_leader_epoch_changes_nothing() -> None:
    cursor = reading()
    cursor.led_by(2, 2)

    assert (cursor.leader, cursor.leader_epoch) == (1, 3)


def test_a_truncation_continues_where_the_logs_part() -> None:
    cursor = reading()
    cursor.led_by(2, 4)
    message = cursor.validated(2, 7, "t-0")

    assert message == "t-0 was truncated from offset 10 to 7: continuing there"
    assert (cursor.offset, cursor.need) == (7, Need.FETCH)


def test_a_truncation_fails_where_the_policy_says_so() -> None:
    cursor = reading(Reset.ERROR)
    cursor.led_by(2, 4)

    assert cursor.validated(2, 7, "t-0") == cursor.failure
    assert need_of(cursor) is Need.NOTHING


def test_a_committed_offset_with_its_epoch_is_validated() -> None:
    cursor = PartitionCursor(Reset.EARLIEST)
    cursor.seek(10, 3)
    cursor.led_by(1, 5)

    assert need_of(cursor) is Need.VALIDATION


def test_every_other_error_stops_the_partition() -> None:
    cursor = reading()
    message = cursor.refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "t-0")

    assert message == "t-0 cannot be read: TOPIC_AUTHORIZATION_FAILED"
    assert need_of(cursor) is Need.NOTHING


def test_a_topic_made_anew_takes_any_epoch() -> None:
    cursor = reading()
    cursor.made_anew()
    cursor.reset(Reset.EARLIEST)
    cursor.seek(0)
    cursor.led_by(1, 0)

    assert need_of(cursor) is Need.FETCH
