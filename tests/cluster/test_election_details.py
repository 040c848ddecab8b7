"""Elections, one condition at a time: what each part of a decision depends on."""

from __future__ import annotations

from msgspec.structs import replace
from tests.cluster.test_proofs import EPOCH, TWO, crashed, faulty, proof, proved, state, steady, stopped_cleanly

from qanat.cluster.elections import Awaited, Rules, awaited, settle
from qanat.cluster.nodes import Node, Nodes
from qanat.cluster.proofs import Evidence
from qanat.cluster.values import NO_LEADER, Member, PartitionState

UNFLUSHED = Rules(min_insync_replicas=2, flushed_since=None)


def outline(one: PartitionState) -> tuple[int, tuple[int, ...], list[int]]:
    """The leader, the in-sync set and the eligible replicas."""
    return one.leader, one.in_sync_nodes, [member.node_id for member in one.eligible]


def test_a_set_that_is_large_enough_has_no_eligible_replicas() -> None:
    assert outline(settle(state(0, 1, eligible=(2,)), steady(0, 1, 2), TWO)) == (0, (0, 1), [])


def test_a_partition_without_a_leader_gets_one_though_all_members_are_well() -> None:
    after = settle(state(leader=NO_LEADER), steady(0, 1, 2), TWO)

    assert (after.leader, after.leader_epoch) == (0, 4)


def test_a_sole_replica_leads_though_its_log_is_offline() -> None:
    alone = replace(state(0, leader=NO_LEADER), replicas=(0,))

    assert settle(alone, steady(0), TWO, faulty(0, is_offline=True)).leader == 0


def test_after_a_clean_stop_no_broker_is_awaited() -> None:
    assert awaited(state(), stopped_cleanly(0), TWO, proved(proof())) == Awaited()
    assert awaited(state(), crashed(0), TWO, proved(proof())) == Awaited(gone=(1, 2))


def test_one_clean_stop_among_the_best_is_enough() -> None:
    mixed = Nodes({0: Node(EPOCH, False, EPOCH), 2: Node(EPOCH, False, 0, 10)}, {})
    equal = Evidence({0: proof(), 2: proof()})

    assert outline(settle(state(leader=1), mixed, TWO, equal)) == (0, (0, 2), [])


def test_a_new_log_beside_a_broker_that_is_away_says_nothing_of_all_replicas() -> None:
    assert awaited(state(0, 1), crashed(1), TWO, Evidence({1: proof(generation=15)})) == Awaited()


def test_a_partition_without_members_awaits_no_broker() -> None:
    empty = replace(state(leader=NO_LEADER), in_sync=())

    assert awaited(empty, crashed(0), TWO, Evidence()) == Awaited()
    assert settle(empty, crashed(0), TWO, proved(proof(0, generation=15))) is empty


def test_an_eligible_process_that_stops_does_not_keep_those_that_are_back_from_leading() -> None:
    mixed = Nodes({0: Node(5, True, 0), 1: Node(EPOCH, False, 0, running_since=8)}, {})
    after = settle(state(1, eligible=(0,), leader=NO_LEADER), mixed, TWO, Evidence({1: proof()}))

    assert outline(after) == (1, (1,), [0])


def test_an_eligible_process_that_never_stopped_leads_before_a_member_that_crashed() -> None:
    mixed = Nodes({0: Node(EPOCH, False, EPOCH), 1: Node(5, False, 0)}, {})
    after = settle(state(0, eligible=(1,), leader=NO_LEADER), mixed, UNFLUSHED, proved(proof()))

    assert outline(after) == (1, (1,), [])


def test_a_broker_that_has_had_its_time_to_prove_is_not_waited_for() -> None:
    silent = Evidence(silent=frozenset((0, 1)))
    waiting = state(0, eligible=(2,), leader=NO_LEADER)
    unclean = Rules(is_unclean_allowed=True)

    assert settle(waiting, stopped_cleanly(0, 1), unclean, Evidence()) is waiting
    assert settle(waiting, stopped_cleanly(0, 1), unclean, silent).is_recovered


def test_where_every_log_has_an_epoch_that_no_leader_has_had_the_store_is_the_older_one() -> None:
    assert settle(state(0, leader=NO_LEADER), stopped_cleanly(0), TWO, proved(proof(last_epoch=9))).leader == 0


def test_damage_is_remembered_without_a_leader_and_new_damage_waits_for_one() -> None:
    before = replace(state(1), damaged=(0, 2))
    after = settle(before, steady(2), TWO, faulty(2))

    assert (after.leader, after.damaged) == (NO_LEADER, (0, 2))


def test_a_repaired_replica_leaves_those_that_are_eligible_as_they_are() -> None:
    before = replace(state(0, eligible=(1,), leader=NO_LEADER), damaged=(2,))
    after = settle(before, crashed(2), TWO, Evidence({2: proof()}))

    assert (outline(after), after.damaged) == ((NO_LEADER, (0,), [1]), ())


def test_a_stopping_member_stays_alone_where_all_others_are_gone() -> None:
    stopping = Nodes({0: Node(5, True, 0)}, {})

    assert outline(settle(state(0, 1, leader=1), stopping, TWO)) == (0, (0,), [1])


def test_an_eligible_replica_that_lost_its_disk_is_eligible_no_more() -> None:
    lost = Nodes({1: Node(EPOCH, False, 0, 0)}, {2: 30})
    after = settle(state(0, eligible=(1, 2)), lost, UNFLUSHED, Evidence({1: proof()}))

    assert outline(after) == (NO_LEADER, (0,), [1])


def test_in_doubt_the_election_waits_for_every_proof() -> None:
    mixed = Nodes({0: Node(EPOCH, False, 0, running_since=8), 1: Node(EPOCH, False, EPOCH)}, {})
    known = Evidence({1: proof()}, silent=frozenset((0,)))

    assert settle(state(0, eligible=(1,)), mixed, UNFLUSHED, known).leader == NO_LEADER


def test_where_all_are_in_doubt_a_member_leads_before_an_eligible_replica() -> None:
    after = settle(state(1, eligible=(0,), leader=NO_LEADER), crashed(0, 1), UNFLUSHED, proved(proof(), proof()))

    assert outline(after) == (1, (1,), [])


def test_a_damaged_leader_serves_on_only_as_a_member_and_not_without_its_log() -> None:
    again = Nodes({1: Node(EPOCH, False, 0, running_since=8)}, {})
    member = state(1, leader=1)
    damaged = faulty(1)
    assert outline(settle(member, again, TWO, damaged)) == (1, (1,), [])
    assert settle(member, again, TWO, faulty(1, is_offline=True)).leader == NO_LEADER
    assert settle(state(0, eligible=(1,), leader=1), again, TWO, damaged).leader == NO_LEADER


def test_a_member_that_is_back_misses_nothing_while_another_stays_that_cannot_commit_alone() -> None:
    mixed = Nodes({0: Node(5, False, 0), 1: Node(EPOCH, False, 0, 10)}, {})
    before = replace(state(0, 1), replicas=(0, 1))

    assert outline(settle(before, mixed, TWO, Evidence({1: proof()}))) == (0, (0,), [1])
    assert settle(before, mixed, TWO, Evidence({1: proof()})).eligible == (Member(1, 10),)


def test_of_those_that_are_back_one_that_does_not_stop_leads() -> None:
    back = Nodes({0: Node(EPOCH, True, 0, 10), 1: Node(EPOCH, False, 0, 10)}, {})

    assert outline(settle(state(), back, TWO, proved(proof(), proof()))) == (1, (0, 1), [])


def test_an_unclean_election_of_new_logs_waits_for_absent_brokers_up_to_a_bound() -> None:
    unclean = Rules(is_unclean_allowed=True)
    new = proved(proof(generation=15), proof(generation=15))

    assert settle(state(0, 1), crashed(0, 1), unclean, new).leader == NO_LEADER
    assert settle(state(0, 1), crashed(0, 1), unclean, replace(new, is_overdue=True)).is_recovered


def test_an_unclean_election_needs_a_replica_that_is_there() -> None:
    assert settle(state(), crashed(), Rules(is_unclean_allowed=True)).leader == NO_LEADER


def test_a_leader_that_was_no_member_leads_in_a_new_epoch() -> None:
    after = settle(state(0, eligible=(1,), leader=1), stopped_cleanly(1), TWO, Evidence({1: proof()}))

    assert (after.leader, after.leader_epoch) == (1, 4)
