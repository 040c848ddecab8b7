"""A leader's view of its followers: what is committed, which replicas should be in sync (C08 to C12)."""

from __future__ import annotations

from qanat.replication.leader import Change, Leader

ALIVE = {0: 5, 1: 5, 2: 5}


def leader(*in_sync: int, min_in_sync: int = 1, epoch_start: int = 0) -> Leader:
    made = Leader(0, epoch_start, lag_max_ms=100)
    made.min_in_sync = min_in_sync
    made.stored((0, 1, 2), in_sync or (0, 1, 2), now_ms=0)
    return made


def test_nothing_is_committed_before_every_member_has_asked() -> None:
    made = leader()
    made.note_fetch(1, 5, 10, 10, 1)

    assert made.committed(10) is None
    made.note_fetch(2, 5, 7, 10, 1)
    assert made.committed(10) == 7


def test_a_leader_alone_commits_what_it_has() -> None:
    assert leader(0).committed(10) == 10


def test_the_leader_itself_counts() -> None:
    made = leader()
    made.note_fetch(1, 5, 10, 10, 1)
    made.note_fetch(2, 5, 10, 10, 1)

    assert made.committed(4) == 4


def test_c12_nothing_is_committed_while_too_few_are_in_sync() -> None:
    made = leader(0, min_in_sync=2)

    assert made.committed(10) is None


def test_a_partition_with_fewer_replicas_than_the_minimum_goes_by_what_it_has() -> None:
    made = Leader(0, 0, 100)
    made.min_in_sync = 2
    made.stored((0,), (0,), 0)

    assert made.committed(3) == 3


def test_nothing_is_committed_while_others_count_on_it() -> None:
    made = leader(0)
    made.stored((0, 1, 2), (0,), 0, is_held=True)

    assert made.committed(10) is None


def test_c09_while_a_change_is_under_way_both_sets_count() -> None:
    made = leader(0, 1)
    made.note_fetch(1, 5, 10, 10, 1)
    made.note_fetch(2, 5, 10, 10, 1)
    change = made.change_wanted(ALIVE, 10, 10, 1)
    assert change == Change((0, 1, 2), {2: 5})

    made.note_fetch(1, 5, 12, 12, 2)
    assert made.committed(12) == 10, "broker 2 may be a member already"
    made.settled(change)
    assert made.committed(12) == 12


def test_c09_hearing_once_more_what_is_known_says_nothing_of_a_change_that_is_under_way() -> None:
    made = leader(0)
    made.note_fetch(1, 5, 10, 10, 1)
    change = made.change_wanted(ALIVE, 10, 10, 1)
    assert change is not None

    made.stored((0, 1, 2), (0,), 2)

    assert made.is_pending(change)
    assert made.committed(12) == 10, "broker 1 may be a member already"


def test_c09_a_change_that_was_overtaken_neither_counts_nor_fails_the_next_one() -> None:
    made = leader(0)
    made.note_fetch(1, 5, 10, 10, 1)
    overtaken = made.change_wanted(ALIVE, 10, 10, 1)
    assert overtaken is not None
    made.stored((0, 1), (0,), 2)
    made.note_fetch(1, 5, 10, 10, 3)
    under_way = made.change_wanted(ALIVE, 10, 10, 3)
    assert under_way is not None

    made.settled(overtaken)

    assert not made.is_pending(overtaken)
    assert made.is_pending(under_way)


def test_c09_a_member_that_is_being_dropped_still_counts() -> None:
    made = leader(0, 1)
    made.note_fetch(1, 5, 5, 10, 0)
    assert made.change_wanted(ALIVE, 5, 10, 500) == Change((0,), {})

    assert made.committed(10) == 5
    made.stored((0, 1, 2), (0,), 501)
    assert made.committed(10) == 10


def test_c09_one_change_at_a_time() -> None:
    made = leader(0)
    made.note_fetch(1, 5, 10, 10, 1)
    assert made.change_wanted(ALIVE, 10, 10, 1) is not None
    made.note_fetch(2, 5, 10, 10, 1)

    assert made.change_wanted(ALIVE, 10, 10, 1) is None


def test_c11_a_follower_joins_only_with_everything_up_to_the_leaders_own_epoch() -> None:
    made = leader(0, epoch_start=20)
    made.note_fetch(1, 5, 15, 30, 1)
    assert made.change_wanted(ALIVE, 10, 30, 1) is None

    made.note_fetch(1, 5, 20, 30, 2)
    assert made.change_wanted(ALIVE, 10, 30, 2) == Change((0, 1), {1: 5})


def test_a_follower_joins_only_with_everything_that_is_committed() -> None:
    made = leader(0)
    made.note_fetch(1, 5, 9, 30, 1)

    assert made.change_wanted(ALIVE, 10, 30, 1) is None


def test_c10_a_process_that_is_not_registered_any_more_does_not_join() -> None:
    made = leader(0)
    made.note_fetch(1, 5, 10, 10, 1)

    assert made.change_wanted({0: 5, 1: 6}, 10, 10, 1) is None, "it asked in epoch 5 and is registered in epoch 6"
    assert made.change_wanted({0: 5}, 10, 10, 1) is None


def test_c10_the_old_process_of_a_broker_is_not_heard_any_more() -> None:
    made = leader()
    assert made.note_fetch(1, 6, 3, 10, 1)

    assert not made.note_fetch(1, 5, 10, 10, 2)
    made.note_fetch(2, 5, 10, 10, 2)
    assert made.committed(10) == 3


def test_c08_a_stranger_is_not_heard() -> None:
    assert not leader().note_fetch(7, 5, 10, 10, 1)


def test_a_follower_that_lags_is_dropped_and_one_that_has_everything_is_not() -> None:
    made = leader()
    made.note_fetch(1, 5, 5, 10, 0)
    made.note_fetch(2, 5, 10, 10, 0)

    assert made.change_wanted(ALIVE, 5, 10, 99) is None
    assert made.change_wanted(ALIVE, 5, 10, 101) == Change((0, 2), {})


def test_a_follower_that_keeps_up_with_a_log_that_grows_is_not_dropped() -> None:
    made = leader(0, 1)
    for now_ms, (offset, end) in enumerate(((0, 10), (10, 20), (20, 30), (30, 40))):
        made.note_fetch(1, 5, offset, end, now_ms * 60)

    assert made.change_wanted(ALIVE, 0, 40, 200) is None


def test_a_replica_that_left_the_partition_is_forgotten() -> None:
    made = leader()
    made.note_fetch(1, 5, 10, 10, 1)
    made.stored((0, 2), (0, 2), 2)

    assert not made.note_fetch(1, 5, 10, 10, 3)


def test_a_follower_that_had_everything_has_the_whole_lag_time_from_then_on() -> None:
    made = leader(0, 1)
    made.note_fetch(1, 5, 10, 10, 90)

    assert made.change_wanted(ALIVE, 10, 20, 190) is None
    assert made.change_wanted(ALIVE, 10, 20, 191) == Change((0,), {})


def test_a_follower_that_asks_for_less_than_the_end_of_before_has_not_caught_up() -> None:
    made = leader(0, 1)
    made.note_fetch(1, 5, 0, 10, 80)
    made.note_fetch(1, 5, 9, 30, 90)

    assert made.change_wanted(ALIVE, 0, 30, 101) == Change((0,), {})


def test_what_the_process_before_asked_for_does_not_make_a_new_process_caught_up() -> None:
    made = leader(0, 1)
    made.note_fetch(1, 5, 0, 10, 80)
    made.note_fetch(1, 6, 10, 30, 90)

    assert made.change_wanted(ALIVE, 0, 30, 101) == Change((0,), {})


def test_the_time_of_catching_up_never_goes_back() -> None:
    made = leader(0, 1)
    made.note_fetch(1, 5, 10, 10, 90)
    made.note_fetch(1, 5, 10, 10, 40)

    assert made.change_wanted(ALIVE, 10, 20, 190) is None


def test_a_leader_is_not_its_own_follower() -> None:
    assert not leader().note_fetch(0, 5, 10, 10, 1)


def test_a_leader_that_is_not_in_sync_does_not_let_itself_in() -> None:
    made = leader(1)
    made.note_fetch(1, 5, 10, 10, 1)

    assert made.change_wanted({0: 5, 1: 5}, 10, 10, 1) is None


def test_a_member_that_is_no_replica_holds_up_commitment_until_it_is_dropped() -> None:
    made = Leader(0, 0, 100)
    made.stored((0, 1), (0, 1, 2), 0)
    made.note_fetch(1, 5, 10, 10, 1)

    assert made.committed(10) is None
    assert made.change_wanted(ALIVE, 10, 10, 1) == Change((0, 1), {})


def test_one_member_is_enough_unless_more_are_asked_for_and_none_is_not() -> None:
    made = Leader(0, 0, 100)
    made.stored((0, 1, 2), (0,), 0)
    assert made.committed(10) == 10

    made.stored((0, 1, 2), (), 1)
    assert made.committed(10) is None


def test_the_shared_start_is_the_lowest_of_all_members_and_0_for_one_that_has_not_asked() -> None:
    made = leader()
    made.note_fetch(1, 5, 10, 10, 1, start_offset=4)
    assert made.shared_start(6) == 0, "broker 2 has not said where it starts"

    made.note_fetch(2, 5, 10, 10, 1, start_offset=5)
    assert made.shared_start(6) == 4
    made.note_fetch(1, 5, 10, 10, 2, start_offset=7)
    assert made.shared_start(6) == 5
    made.note_fetch(2, 5, 10, 10, 2, start_offset=7)
    assert made.shared_start(6) == 6, "the leader counts, too"


def test_a_leader_alone_shares_its_start_with_nobody() -> None:
    assert leader(0).shared_start(6) == 6


def test_a_follower_holds_what_it_said_and_nothing_before_it_has_asked() -> None:
    made = leader()
    assert made.held_by(1) == (0, -1)
    assert made.held_by(7) == (0, -1), "no replica at all"

    made.note_fetch(1, 5, 10, 12, 1, start_offset=3)
    assert made.held_by(1) == (3, 10)


def test_a_change_is_under_way_from_when_it_is_wanted_until_it_is_settled() -> None:
    made = leader(0)
    seen = [made.is_changing]
    made.note_fetch(1, 5, 10, 10, 1)
    change = made.change_wanted(ALIVE, 10, 10, 1)
    assert change is not None
    seen.append(made.is_changing)
    made.settled(change)

    assert [*seen, made.is_changing] == [False, True, False]
