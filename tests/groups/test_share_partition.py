"""Who holds which records: giving out, getting back, giving up."""

from __future__ import annotations

import pytest
from tests.groups.share_records import fetch, partition, say

from qanat.groups.share.partition import (
    Acknowledgement,
    AcquiredRange,
    ArchivingRange,
    Change,
    Read,
    Span,
    Take,
)
from qanat.groups.share.record_states import AcknowledgeType, RecordState, StateBatch
from qanat.groups.share.rules import ShareRules
from qanat.groups.share.runs import Cause
from qanat.model.error_codes import ErrorCode

GAP, ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType
AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVING, ARCHIVED = RecordState


def test_a_batch_is_given_to_one_member_only() -> None:
    share = partition()
    assert fetch(share, "a", Span(0, 9), Span(10, 19), most=10) == [AcquiredRange(0, 9, 1)]
    assert fetch(share, "b", Span(0, 9), Span(10, 19), most=10) == [AcquiredRange(10, 19, 1)]
    assert share.next_fetch_offset(0) == 20


def test_a_batch_is_given_whole_where_the_limit_lies_in_it() -> None:
    assert fetch(partition(), "a", Span(0, 9), Span(10, 19), most=3) == [AcquiredRange(0, 9, 1)]


def test_a_batch_is_cut_for_who_wants_exactly_so_many() -> None:
    share = partition()
    assert fetch(share, "a", Span(0, 9), most=3, exact=True) == [AcquiredRange(0, 2, 1)]
    assert fetch(share, "b", Span(0, 9), most=3, exact=True) == [AcquiredRange(3, 5, 1)]


@pytest.mark.parametrize("most", [1, 2, 3, 4])
@pytest.mark.parametrize("is_known", [False, True])
def test_a_member_gets_as_many_records_as_it_wants(most: int, is_known: bool) -> None:
    """New ones, and ones that another member has released."""
    share = partition(10)
    spans = [Span(offset, offset) for offset in range(10, 14)]
    if is_known:
        fetch(share, "b", *spans)
        share.release_member("b", 0, is_attempt=True)
    found = fetch(share, "a", *spans, most=most, exact=True)

    assert [one.first_offset for one in found] == [10, 11, 12, 13][:most]


def test_released_records_are_given_out_in_as_many_deliveries_as_members_want() -> None:
    share = partition()
    fetch(share, "a", Span(0, 9))
    say(share, "a", 0, 9, RELEASE)
    fetch(share, "a", Span(0, 9), most=3)
    say(share, "a", 0, 2, RELEASE)

    assert fetch(share, "b", Span(0, 9), most=2) == [AcquiredRange(0, 1, 3)]
    assert fetch(share, "c", Span(0, 9), most=4) == [AcquiredRange(2, 2, 3), AcquiredRange(3, 5, 2)]


def test_no_more_batches_are_looked_at_than_a_member_needs() -> None:
    share = partition()
    spans = [Span(offset, offset) for offset in range(10)]
    fetch(share, "a", *spans)
    share.release_member("a", 0, is_attempt=True)
    walked = iter(spans)
    share.acquire("b", Read(0, walked, 10), Take(1), 0)

    assert next(walked) == Span(2, 2)


def test_a_member_gets_nothing_from_before_the_offset_that_was_read() -> None:
    share = partition()
    fetch(share, "a", Span(0, 9), most=5, exact=True)
    share.release_member("a", 0, is_attempt=True)

    assert share.acquire("b", Read(5, [Span(0, 9)], 10), Take(100), 0) == [AcquiredRange(5, 9, 1)]
    assert fetch(share, "c", Span(0, 9)) == [AcquiredRange(0, 4, 2)]


def test_ranges_are_named_in_about_the_size_that_is_asked_for() -> None:
    spans = [Span(first, first + 1) for first in range(0, 10, 2)]
    assert fetch(partition(), "a", *spans, size=4) == [
        AcquiredRange(0, 3, 1),
        AcquiredRange(4, 7, 1),
        AcquiredRange(8, 9, 1),
    ]


def test_ranges_grow_until_they_have_the_size_that_is_asked_for() -> None:
    spans = [Span(offset, offset) for offset in range(5)]
    found = fetch(partition(), "a", *spans, size=2)

    assert found == [AcquiredRange(0, 1, 1), AcquiredRange(2, 3, 1), AcquiredRange(4, 4, 1)]


def test_ranges_with_a_hole_between_or_of_different_deliveries_are_named_one_by_one() -> None:
    share = partition(0, (StateBatch(0, 1, AVAILABLE, 1), StateBatch(2, 3, AVAILABLE, 0)))
    found = fetch(share, "a", Span(0, 3), Span(5, 6), size=10)

    assert found == [AcquiredRange(0, 1, 2), AcquiredRange(2, 3, 1), AcquiredRange(5, 6, 1)]


def test_what_is_accepted_in_order_moves_the_start_and_leaves_nothing_to_write_but_that() -> None:
    share = partition()
    fetch(share, "a", Span(0, 9))
    assert say(share, "a", 0, 4, ACCEPT) == Change(5, ())
    assert (share.start_offset, share.end_offset) == (5, 10)


def test_what_is_accepted_out_of_order_is_written_down_and_waits_for_the_rest() -> None:
    share = partition()
    fetch(share, "a", Span(0, 9))
    assert say(share, "a", 5, 9, ACCEPT) == Change(0, (StateBatch(5, 9, ACKNOWLEDGED, 0),))
    assert share.done_count == 5
    assert say(share, "a", 0, 4, ACCEPT) == Change(10, ())
    assert share.start_offset == 10


def test_finished_records_are_counted_from_the_start_on() -> None:
    share = partition(10)
    fetch(share, "a", Span(10, 19))
    say(share, "a", 15, 19, ACCEPT)

    assert share.done_count == 5


def test_every_record_may_have_its_own_fate() -> None:
    share = partition()
    fetch(share, "a", Span(0, 4))
    change = say(share, "a", 0, 4, ACCEPT, RELEASE, REJECT, GAP, ACCEPT)
    assert change == Change(
        1,
        (
            StateBatch(1, 1, AVAILABLE, 1),
            StateBatch(2, 3, ARCHIVED, 0),
            StateBatch(4, 4, ACKNOWLEDGED, 0),
        ),
    )
    assert fetch(share, "b", Span(0, 4)) == [AcquiredRange(1, 1, 2)]


@pytest.mark.parametrize(("member", "first", "last"), [("b", 0, 4), ("a", 4, 12), ("nobody", 5, 5)], ids=str)
def test_nobody_acknowledges_what_he_does_not_hold(member: str, first: int, last: int) -> None:
    share = partition()
    fetch(share, "a", Span(0, 9))
    fetch(share, "b", Span(10, 19))
    before = share.runs()
    assert say(share, member, first, last, ACCEPT) is ErrorCode.INVALID_RECORD_STATE
    assert share.runs() == before


@pytest.mark.parametrize(("first", "last"), [(5, 10), (10, 10), (90, 91)], ids=str)
def test_nobody_acknowledges_what_was_never_given_out(first: int, last: int) -> None:
    share = partition()
    fetch(share, "a", Span(0, 9))
    before = share.runs()
    assert say(share, "a", first, last, ACCEPT) is ErrorCode.INVALID_REQUEST
    assert share.runs() == before


def test_records_that_nobody_holds_are_not_held_by_nobody() -> None:
    share = partition()
    fetch(share, "a", Span(0, 9))
    say(share, "a", 0, 9, RELEASE)
    before = share.runs()

    assert say(share, "", 0, 9, ACCEPT) is ErrorCode.INVALID_RECORD_STATE
    assert share.release_member("", 0, is_attempt=True) is None
    assert share.runs() == before


def test_nothing_is_said_twice_of_a_record() -> None:
    share = partition()
    fetch(share, "a", Span(0, 9))
    said = [Acknowledgement(0, 4, [ACCEPT]), Acknowledgement(4, 6, [RELEASE])]
    assert share.acknowledge("a", said, 0) is ErrorCode.INVALID_RECORD_STATE
    assert share.start_offset == 0


def test_of_several_ranges_all_are_taken_or_none() -> None:
    share = partition()
    fetch(share, "a", Span(0, 9))
    say(share, "a", 5, 5, ACCEPT)
    said = [Acknowledgement(0, 1, [ACCEPT]), Acknowledgement(4, 6, [ACCEPT])]
    assert share.acknowledge("a", said, 0) is ErrorCode.INVALID_RECORD_STATE
    assert share.start_offset == 0


def test_what_lies_before_the_start_is_done_whoever_says_so() -> None:
    share = partition()
    fetch(share, "a", Span(0, 9))
    say(share, "a", 0, 4, ACCEPT)
    assert say(share, "b", 0, 3, RELEASE) is None


def test_a_record_is_not_held_longer_than_its_lock() -> None:
    share = partition()
    fetch(share, "a", Span(0, 9), now=0)
    fetch(share, "b", Span(10, 19), now=500)
    assert share.next_deadline_ms == 1_000
    assert share.tick(999) is None
    assert share.tick(1_000) == Change(0, (StateBatch(0, 9, AVAILABLE, 1),))
    assert share.next_deadline_ms == 1_500
    assert say(share, "a", 0, 9, ACCEPT, now=1_000) is ErrorCode.INVALID_RECORD_STATE
    assert fetch(share, "b", Span(0, 9), now=1_000) == [AcquiredRange(0, 9, 2)]
    assert say(share, "b", 10, 19, ACCEPT, now=1_499) is not None


def test_a_lock_may_be_renewed() -> None:
    share = partition()
    fetch(share, "a", Span(0, 1), now=0)
    assert say(share, "a", 0, 0, RENEW, now=900) is None
    assert share.tick(1_000) == Change(0, (StateBatch(1, 1, AVAILABLE, 1),))
    assert share.next_deadline_ms == 1_900
    assert say(share, "a", 0, 0, ACCEPT, now=1_899) == Change(1, ())


def test_a_renewed_lock_ends_by_the_rules_of_now() -> None:
    share = partition()
    fetch(share, "a", Span(0, 0), now=0)
    share.rules = ShareRules(lock_ms=100)
    assert say(share, "a", 0, 0, RENEW, now=200) is None

    assert share.next_deadline_ms == 300


@pytest.mark.parametrize("ends_by", ["release", "timeout", "loss"])
def test_a_record_is_given_up_after_its_last_delivery(ends_by: str) -> None:
    share = partition(delivery_count_limit=3)
    change: Change | None = None
    for delivery in (1, 2, 3):
        assert fetch(share, "a", Span(0, 0), now=0) == [AcquiredRange(0, 0, delivery)]
        match ends_by:
            case "release":
                change = say(share, "a", 0, 0, RELEASE)
            case "timeout":
                change = share.tick(1_000)
            case _:
                change = share.release_member("a", 0, is_attempt=True)
    assert change == Change(1, ())
    assert share.next_fetch_offset(0) == 1


def test_a_good_bye_is_no_delivery() -> None:
    share = partition(delivery_count_limit=2)
    for _ in range(5):
        assert fetch(share, "a", Span(0, 0)) == [AcquiredRange(0, 0, 1)]
        assert share.release_member("a", 0, is_attempt=False) == Change(0, (StateBatch(0, 0, AVAILABLE, 0),))


def test_what_is_rejected_goes_to_the_dead_letters_before_it_is_forgotten() -> None:
    share = partition(has_dead_letters=True)
    fetch(share, "a", Span(0, 2))
    change = say(share, "a", 0, 2, ACCEPT, REJECT, ACCEPT)
    archiving = (ArchivingRange(1, 1, 1, Cause.REJECTED),)
    assert change == Change(1, (StateBatch(1, 1, ARCHIVING, 1), StateBatch(2, 2, ACKNOWLEDGED, 0)), archiving)
    assert share.next_fetch_offset(0) == 3
    assert share.finish_archiving(1, 1) == Change(3, ())
    assert share.finish_archiving(1, 1) is None


def test_what_is_worn_out_goes_to_the_dead_letters() -> None:
    share = partition(has_dead_letters=True, delivery_count_limit=2)
    for _ in range(2):
        fetch(share, "a", Span(0, 2))
        change = share.release_member("a", 0, is_attempt=True)
    assert change is not None
    assert change.archiving == (ArchivingRange(0, 2, 2, Cause.DELIVERED_TOO_OFTEN),)
    assert share.start_offset == 0


def test_dead_letters_are_gone_on_with_after_a_crash() -> None:
    batches = (StateBatch(3, 4, ARCHIVING, 5), StateBatch(6, 6, ARCHIVING, 2))
    share = partition(3, batches, has_dead_letters=True)
    assert share.archiving() == (
        ArchivingRange(3, 4, 5, Cause.DELIVERED_TOO_OFTEN),
        ArchivingRange(6, 6, 2, Cause.REJECTED),
    )
    assert share.next_fetch_offset(0) == 5


def test_dead_letters_are_finished_one_by_one() -> None:
    batches = tuple(StateBatch(offset, offset, ARCHIVING, 5) for offset in (3, 5, 7))
    share = partition(3, batches, has_dead_letters=True)
    share.finish_archiving(5, 5)
    assert [one.first_offset for one in share.archiving()] == [3, 7]
    share.finish_archiving(0, 9)

    assert share.archiving() == ()


@pytest.mark.parametrize("first_to_fail", [0, 1])
def test_a_record_that_is_kept_back_is_neither_given_out_early_nor_lost(first_to_fail: int) -> None:
    share = partition(backoff_ms=100)
    other = 1 - first_to_fail
    fetch(share, "a", Span(0, 1))
    say(share, "a", first_to_fail, first_to_fail, RELEASE, now=0)
    say(share, "a", other, other, RELEASE, now=50)

    assert fetch(share, "a", Span(0, 1), now=100) == [AcquiredRange(first_to_fail, first_to_fail, 2)]
    assert fetch(share, "a", Span(0, 1), now=150) == [AcquiredRange(other, other, 2)]


def test_a_deadline_that_has_come_is_none_any_more() -> None:
    share = partition(backoff_ms=100)
    fetch(share, "a", Span(0, 0))
    say(share, "a", 0, 0, RELEASE)
    assert share.next_deadline_ms == 100
    share.tick(100)

    assert share.next_deadline_ms is None


def test_a_failed_record_is_kept_back_longer_every_time() -> None:
    share = partition(backoff_ms=100, backoff_max_ms=300)
    now = 0
    for delay in (100, 200, 300, 300):
        fetch(share, "a", Span(0, 0), now=now)
        say(share, "a", 0, 0, RELEASE, now=now)
        assert share.next_fetch_offset(now + delay - 1) == 1
        now += delay
        assert share.next_deadline_ms is not None
        assert share.next_deadline_ms <= now
        share.tick(now)
        assert share.next_fetch_offset(now) == 0


def test_no_more_is_given_out_while_too_many_are_not_done() -> None:
    share = partition(max_record_locks=10)
    fetch(share, "a", Span(0, 9))
    assert share.next_fetch_offset(0) is None
    say(share, "a", 9, 9, ACCEPT)
    assert share.next_fetch_offset(0) == 10
    assert fetch(share, "b", Span(10, 10), Span(11, 11)) == [AcquiredRange(10, 10, 1)]
    assert share.next_fetch_offset(0) is None
    say(share, "a", 3, 3, RELEASE)
    assert fetch(share, "b", Span(0, 9)) == [AcquiredRange(3, 3, 2)]


def test_one_stuck_record_does_not_stop_the_others() -> None:
    share = partition(max_record_locks=10)
    fetch(share, "a", Span(0, 0))
    for first in range(1, 100):
        assert fetch(share, "b", Span(first, first)) == [AcquiredRange(first, first, 1)]
        say(share, "b", first, first, ACCEPT)
    assert (share.start_offset, share.done_count, len(share.runs())) == (0, 99, 2)


def test_markers_and_holes_are_passed_over() -> None:
    share = partition()
    assert fetch(share, "a", Span(2, 3), Span(4, 4, is_wanted=False), Span(7, 8)) == [
        AcquiredRange(2, 3, 1),
        AcquiredRange(7, 8, 1),
    ]
    assert share.start_offset == 2
    say(share, "a", 2, 3, ACCEPT)
    assert share.start_offset == 7


def test_a_read_of_nothing_but_holes_moves_on() -> None:
    share = partition()
    assert share.acquire("a", Read(0, [Span(0, 4, is_wanted=False)], 9), Take(10), 0) == []
    assert (share.start_offset, share.end_offset) == (9, 9)


def test_records_that_compaction_took_meanwhile_are_done() -> None:
    share = partition()
    fetch(share, "a", Span(0, 9))
    share.release_member("a", 0, is_attempt=True)
    assert fetch(share, "b", Span(4, 5), Span(8, 9)) == [AcquiredRange(4, 5, 2), AcquiredRange(8, 9, 2)]
    say(share, "b", 4, 5, ACCEPT)
    assert share.start_offset == 8


def test_records_that_retention_took_are_gone_whoever_held_them() -> None:
    share = partition(max_record_locks=100)
    fetch(share, "a", Span(0, 99))
    share.forget_before(40)
    assert share.start_offset == 40
    assert say(share, "a", 30, 50, ACCEPT) == Change(51, ())
    share.forget_before(200)
    assert (share.start_offset, share.end_offset, share.runs()) == (200, 200, [])
    assert fetch(share, "b", Span(200, 205)) == [AcquiredRange(200, 205, 1)]


def test_records_that_retention_took_are_not_counted_any_more() -> None:
    share = partition()
    fetch(share, "a", Span(0, 9))
    say(share, "a", 2, 3, ACCEPT)
    say(share, "a", 5, 9, RELEASE)
    found = []
    for log_start_offset in (1, 5, 6, 12):
        share.forget_before(log_start_offset)
        found.append((share.start_offset, share.done_count, share.next_fetch_offset(0)))

    assert found == [(1, 2, 5), (5, 0, 5), (6, 0, 6), (12, 0, 12)]


def test_records_that_were_released_stay_when_retention_takes_others() -> None:
    share = partition()
    fetch(share, "a", Span(0, 1))
    say(share, "a", 1, 1, RELEASE)
    share.forget_before(1)

    assert share.next_fetch_offset(0) == 1


def test_delivery_counts_survive_a_restart_and_what_was_held_is_available() -> None:
    share = partition(10, (StateBatch(12, 12, AVAILABLE, 3), StateBatch(14, 15, ACKNOWLEDGED, 0)))
    assert share.next_fetch_offset(0) == 10
    assert fetch(share, "a", Span(10, 19)) == [
        AcquiredRange(10, 11, 1),
        AcquiredRange(12, 12, 4),
        AcquiredRange(13, 13, 1),
        AcquiredRange(16, 19, 1),
    ]


def test_a_restart_begins_behind_finished_records() -> None:
    share = partition(10, (StateBatch(10, 14, ACKNOWLEDGED, 0), StateBatch(15, 15, AVAILABLE, 1)))

    assert (share.start_offset, share.done_count) == (15, 0)


def test_a_member_that_is_gone_holds_nothing() -> None:
    share = partition()
    fetch(share, "a", Span(0, 4))
    fetch(share, "b", Span(5, 9))
    fetch(share, "a", Span(10, 14))
    share.release_member("a", 0, is_attempt=True)
    assert [(batch.first_offset, batch.state, member) for batch, member in share.runs()] == [
        (0, AVAILABLE, ""),
        (5, ACQUIRED, "b"),
        (10, AVAILABLE, ""),
    ]


def test_records_that_were_held_when_the_state_was_read_are_available() -> None:
    share = partition(0, (StateBatch(0, 4, ACQUIRED, 1),))

    assert share.runs() == [(StateBatch(0, 4, AVAILABLE, 1), "")]
    assert share.next_fetch_offset(0) == 0


def test_a_log_that_starts_before_the_share_partition_takes_nothing_back() -> None:
    share = partition(10)
    fetch(share, "a", Span(10, 19))
    for log_start_offset in (5, 10):
        share.forget_before(log_start_offset)

    assert (share.start_offset, share.end_offset) == (10, 20)
    assert share.runs() == [(StateBatch(10, 19, ACQUIRED, 1), "a")]
