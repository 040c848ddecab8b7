"""Subscriptions in mode log and all: credit, acknowledgements, commits, resets."""

from __future__ import annotations

import pytest

from qanat.edge.credit import CreditWindow
from qanat.edge.push_dialogue import WrongFrameError
from qanat.edge.push_session import TAKEN_BACK, Place, PushSession
from qanat.model.ids import TopicPartition

HERE, THERE = TopicPartition("prices", 0), TopicPartition("prices", 1)


def session(records: int = 10, *, is_committing: bool = True) -> PushSession:
    made = PushSession(CreditWindow(records, 1_000), 0, is_committing=is_committing)
    made.assign(HERE, Place(5, 1))
    return made


def send(to: PushSession, end: int, at: TopicPartition = HERE, now_ms: int = 0) -> int:
    return to.sent(at, Place(end, 1), 1, 10, now_ms)


def test_an_ack_commits_its_frame_and_all_before_it() -> None:
    made = session()
    send(made, 6)
    second = send(made, 7)
    send(made, 8)

    made.acknowledge(second, 1)

    assert made.next_commit() == {HERE: Place(7, 1)}
    assert made.unacknowledged == 1
    assert made.credit.out_records == 1


def test_acks_during_a_commit_are_one_next_commit() -> None:
    made = session()
    made.acknowledge(send(made, 6), 1)
    assert made.next_commit() == {HERE: Place(6, 1)}
    made.acknowledge(send(made, 7), 2)
    made.acknowledge(send(made, 8), 3)

    assert made.next_commit() is None
    made.commit_ended(is_durable=True)
    assert made.next_commit() == {HERE: Place(8, 1)}
    assert made.committed == {HERE: Place(6, 1)}
    made.commit_ended(is_durable=False)
    assert made.committed == {HERE: Place(6, 1)}, "a refused commit is none"
    assert not made.has_commits


def test_an_ack_of_a_former_assignment_commits_nothing_and_gives_its_credit_back() -> None:
    made = session()
    frame = send(made, 6)
    made.forget(HERE)
    made.assign(HERE, Place(5, 1))

    made.acknowledge(frame, 1)

    assert not made.has_commits
    assert made.credit.out_records == 0


def test_an_ack_that_came_before_a_partition_was_forgotten_is_not_committed_after_it() -> None:
    made = session()
    made.acknowledge(send(made, 6), 1)
    made.revoke(HERE)
    assert made.has_commits, "it may still commit while it gives the partition back"

    made.forget(HERE)

    assert made.next_commit() is None


@pytest.mark.parametrize("frame_id", [0, 2])
def test_an_ack_of_a_frame_that_was_never_sent_is_refused(frame_id: int) -> None:
    made = session()
    send(made, 6)

    with pytest.raises(WrongFrameError) as refused:
        made.acknowledge(frame_id, 1)

    assert refused.value.reason == "unknown-id"


def test_a_repeated_ack_changes_nothing() -> None:
    made = session()
    frame = send(made, 6)
    made.acknowledge(frame, 1)
    made.next_commit()
    made.commit_ended(is_durable=True)

    made.acknowledge(frame, 2)

    assert not made.has_commits
    assert made.acknowledged_id == frame


def test_nothing_is_sent_between_a_reset_and_its_ack() -> None:
    made = session()
    void = send(made, 9)
    reset = made.reset(HERE, Place(6, 0), 1)
    assert not made.may_send(HERE)

    made.acknowledge(void, 2)
    assert not made.may_send(HERE)
    assert not made.has_commits, "what was acknowledged is void"

    made.acknowledge(reset, 3)
    assert made.may_send(HERE)
    assert made.next_commit() == {HERE: Place(6, 0)}, "the group goes back as well"


def test_without_credit_nothing_may_be_sent() -> None:
    made = session(records=1)
    frame = send(made, 6)
    assert not made.may_send(HERE)

    made.acknowledge(frame, 1)

    assert made.may_send(HERE)


def test_something_larger_than_the_whole_credit_goes_alone() -> None:
    window = CreditWindow(10, 100)
    assert window.fits(50, 5_000)

    window.take(1, 10)

    assert window.fits(9, 90)
    assert not window.fits(1, 91)
    assert not window.fits(10, 1)


def test_a_client_of_a_log_that_acknowledges_nothing_is_overdue() -> None:
    made = session()
    send(made, 6, now_ms=1_000)

    assert not made.is_overdue(30_999)
    assert made.is_overdue(31_000)
    made.acknowledge(1, 30_000)
    assert not made.is_overdue(90_000), "nothing is unacknowledged"


def test_an_ack_gives_the_frames_behind_it_more_time() -> None:
    made = session()
    first = send(made, 6, now_ms=0)
    send(made, 7, now_ms=0)
    made.acknowledge(first, 20_000)

    assert not made.is_overdue(49_999)
    assert made.is_overdue(50_000)


def test_a_subscriber_of_all_is_never_overdue_and_commits_nothing() -> None:
    made = session(is_committing=False)
    made.acknowledge(send(made, 6), 0)
    send(made, 7)

    assert not made.is_overdue(10**9)
    assert not made.has_commits
    with pytest.raises(WrongFrameError, match="mode log"):
        made.commit({HERE: Place(6, 1)})


def test_an_explicit_commit_is_not_undone_by_an_ack_of_frames_before_it() -> None:
    made = session()
    first = send(made, 6)
    send(made, 7)
    made.commit({HERE: Place(7, 1)})

    made.acknowledge(first, 1)

    assert made.next_commit() == {HERE: Place(7, 1)}


@pytest.mark.parametrize(("at", "offset", "reason"), [(THERE, 1, "not-assigned"), (HERE, 7, "not-sent")])
def test_a_commit_of_what_the_client_cannot_have_is_refused(at: TopicPartition, offset: int, reason: str) -> None:
    made = session()
    send(made, 6)

    with pytest.raises(WrongFrameError) as refused:
        made.commit({at: Place(offset)})

    assert refused.value.reason == reason
    assert not made.has_commits


def test_a_commit_that_crosses_a_reset_or_a_rebalance_is_told_that_its_records_were_taken_back() -> None:
    def reason(offset: int) -> str:
        with pytest.raises(WrongFrameError) as refused:
            made.commit({HERE: Place(offset, 1)})
        return refused.value.reason

    made = session()
    send(made, 8)
    made.reset(HERE, Place(6, 2), 0)
    assert reason(8) == TAKEN_BACK
    made.revoke(HERE)
    assert reason(8) == TAKEN_BACK
    made.assign(HERE, Place(5, 2))
    assert (reason(8), reason(9)) == (TAKEN_BACK, "not-sent")
    assert not made.has_commits


def test_offsets_without_records_are_passed_over() -> None:
    made = session()
    made.skip(HERE, Place(9, 1))

    made.acknowledge(send(made, 10), 1)

    assert made.next_commit() == {HERE: Place(10, 1)}


def test_reset_and_ready_of_a_refresh_are_answered_by_their_own_ack_once() -> None:
    made = session()
    frame = made.announce()
    later = send(made, 10)

    assert not made.is_answer(later, 1)
    made.acknowledge(later, 1)
    assert made.is_answer(frame, 2), "an ACK of a later frame did not answer it"
    assert not made.is_answer(frame, 3)
    assert made.next_commit() == {HERE: Place(10, 1)}


def test_what_is_replayed_is_not_committed_before_ready_and_ends_at_the_captured_end() -> None:
    made = session()
    made.acknowledge(send(made, 10), 0)
    assert made.next_commit() is not None
    made.commit_ended(is_durable=True)

    made.hold(HERE)
    assert not made.may_send(HERE)
    made.replay(HERE, Place(0), Place(4, 1))
    last = send(made, 4)
    assert not made.may_send(HERE), "nothing beyond the end before READY"
    assert not made.is_replayed(HERE)
    made.acknowledge(last, 1)
    assert made.is_replayed(HERE)
    assert not made.has_commits

    made.switched(HERE)
    assert made.next_commit() == {HERE: Place(4, 1)}
    made.go_on(HERE)
    assert made.may_send(HERE)


def test_commit_offset_is_refused_while_a_partition_is_refreshed() -> None:
    made = session()
    made.replay(HERE, Place(0), Place(4, 1))
    with pytest.raises(WrongFrameError, match="being refreshed"):
        made.commit({HERE: Place(1, 1)})


def test_a_commit_that_nobody_answered_is_made_again_unless_more_is_acknowledged() -> None:
    made = session()
    made.assign(THERE, Place(0))
    made.acknowledge(send(made, 6), 1)
    made.acknowledge(send(made, 3, THERE), 1)
    made.next_commit()
    made.acknowledge(send(made, 7), 2)

    made.commit_failed()

    assert made.next_commit() == {HERE: Place(7, 1), THERE: Place(3, 1)}


def test_a_commit_that_nobody_answered_is_not_made_again_for_a_partition_that_is_gone() -> None:
    made = session()
    made.acknowledge(send(made, 6), 1)
    made.next_commit()
    made.revoke(HERE)

    made.commit_failed()

    assert not made.has_commits_of([HERE])
    made.assign(HERE, Place(5, 1))
    made.acknowledge(send(made, 6), 1)
    made.next_commit()
    made.reset(HERE, Place(0), 2)
    made.commit_failed()
    assert not made.has_commits, "it was about what is void now"


def test_records_without_an_ack_are_counted_for_the_present_assignment() -> None:
    made = session()
    send(made, 6)
    made.forget(HERE)
    made.assign(HERE, Place(5, 1))
    send(made, 6)
    send(made, 8)

    assert made.unacknowledged_records() == {HERE: 2}


def test_a_commit_names_an_offset() -> None:
    made = session()
    send(made, 6)

    with pytest.raises(WrongFrameError, match="offset -1 of prices-0 is none"):
        made.commit({HERE: Place(-1)})


def test_a_client_lags_once_it_owes_an_answer_for_longer_than_its_way_takes() -> None:
    made = session()
    assert not made.is_lagging(1_000), "it owes nothing"

    first = send(made, 6, now_ms=1_000)
    assert not made.is_lagging(1_010)
    assert made.is_lagging(1_011)

    made.acknowledge(first, 1_040)  # Its way takes 40 ms.
    second = send(made, 7, now_ms=2_000)
    assert not made.is_lagging(2_090)
    assert made.is_lagging(2_091)

    made.acknowledge(second, 2_002)
    third = send(made, 8, now_ms=3_000)
    send(made, 9, now_ms=3_010)
    assert made.is_lagging(3_015)
    made.acknowledge(third, 3_015)
    assert not made.is_lagging(3_015), "what it owes now is younger"


def test_credit_is_mostly_out_by_records_or_by_bytes() -> None:
    for window, record in ((CreditWindow(8, 1_000), (1, 1)), (CreditWindow(1_000, 8), (1, 1))):
        seen = []
        for _ in range(8):
            window.take(*record)
            seen.append(window.is_mostly_out)
        assert seen == [False] * 6 + [True] * 2


def test_credit_without_measure_does_not_make_the_broker_remember_without_measure() -> None:
    window = CreditWindow(2**40, 2**40)
    assert (window.max_records, window.max_bytes) == (1_000_000, 2**30)
    window.grant(5, 2**40)
    assert (window.max_records, window.max_bytes) == (5, 2**30)
