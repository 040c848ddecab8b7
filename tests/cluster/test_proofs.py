"""Elections by what brokers prove of their logs: damaged, rolled-back and emptied replicas (C13, C60, C70)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from qanat.cluster.election_waits import Wait, replica_problems, wait_of
from qanat.cluster.elections import Awaited, Rules, awaited, prefer, recover, settle
from qanat.cluster.nodes import Node, Nodes
from qanat.cluster.proofs import Evidence, Proof
from qanat.cluster.values import NO_LEADER, Member, PartitionState, ReplicaFault

TWO = Rules(min_insync_replicas=2)
EPOCH = 20
"""Of every process that is back."""
ALL = (0, 1, 2)


def state(*in_sync: int, eligible: tuple[int, ...] = (), leader: int = 0, epoch: int = 3) -> PartitionState:
    return PartitionState(
        leader=leader,
        leader_epoch=epoch,
        replicas=ALL,
        in_sync=tuple(Member(node_id, 10) for node_id in in_sync or ALL),
        eligible=tuple(Member(node_id, 10) for node_id in eligible),
    )


def crashed(*node_ids: int) -> Nodes:
    return Nodes({node_id: Node(EPOCH, False, EPOCH) for node_id in node_ids}, {})


def stopped_cleanly(*node_ids: int, stopped_at: int = 10) -> Nodes:
    return Nodes({node_id: Node(EPOCH, False, 0, stopped_at) for node_id in node_ids}, {})


def steady(*node_ids: int) -> Nodes:
    return Nodes({node_id: Node(5, False, 0) for node_id in node_ids}, {})


def proof(end_offset: int = 10, last_epoch: int = 3, epoch: int = 3, **other: object) -> Proof:
    return replace(Proof(EPOCH, "", epoch, 5, last_epoch, end_offset), **other)


def proved(*proofs: Proof, is_overdue: bool = False) -> Evidence:
    return Evidence(dict(enumerate(proofs)), is_overdue=is_overdue)


def faulty(*node_ids: int, is_offline: bool = False) -> Evidence:
    ranges = () if is_offline else ((4, 7),)
    return Evidence(faults={node_id: ReplicaFault("t", 0, ranges, "checksum") for node_id in node_ids})


def test_nothing_is_decided_before_those_that_are_back_have_proved_what_they_hold() -> None:
    before = state()

    assert settle(before, crashed(*ALL), TWO) is before
    assert awaited(before, crashed(*ALL), TWO, Evidence()) == Awaited(unproven=ALL)
    some = Evidence({0: proof(), 1: proof()})
    assert settle(before, crashed(*ALL), TWO, some) is before
    assert awaited(before, crashed(*ALL), TWO, some).unproven == (2,)


def test_c70_the_longest_sound_copy_leads_and_a_disk_that_was_put_back_is_not_in_sync() -> None:
    after = settle(state(), crashed(*ALL), TWO, proved(proof(5), proof(10), proof(10)))

    assert (after.leader, after.in_sync_nodes, after.leader_epoch) == (1, (1, 2), 4)
    assert after.eligible == ()


def test_c70_the_later_epoch_knows_better_than_the_longer_log() -> None:
    after = settle(state(), crashed(*ALL), TWO, proved(proof(50, 2), proof(10, 3), proof(9, 3)))

    assert (after.leader, after.in_sync_nodes) == (1, (1,))


def test_a_shorter_copy_is_not_kept_as_eligible() -> None:
    """It may lack acknowledged records; an absent replica may not."""
    after = settle(state(0, 1, 2), crashed(0, 1), TWO, proved(proof(5), proof(10), is_overdue=True))

    assert (after.leader, after.in_sync_nodes, [one.node_id for one in after.eligible]) == (1, (1,), [2])


def test_after_an_unclean_stop_of_all_those_that_are_away_are_waited_for_up_to_a_bound() -> None:
    before, known = state(), proved(proof(), proof())

    waiting = settle(before, crashed(0, 1), TWO, known)
    assert waiting.leader == NO_LEADER
    again = proved(proof(epoch=4), proof(epoch=4))
    assert awaited(waiting, crashed(0, 1), TWO, again) == Awaited(gone=(2,))
    assert settle(waiting, crashed(0, 1), TWO, again) is waiting

    assert settle(waiting, crashed(0, 1), TWO, replace(again, is_overdue=True)).leader == 0


def test_after_a_clean_stop_of_the_run_in_which_it_was_a_member_nobody_is_waited_for() -> None:
    assert settle(state(), stopped_cleanly(0), TWO, proved(proof())).leader == 0


def test_c70_an_image_of_an_earlier_clean_stop_is_not_taken_for_the_last_one() -> None:
    after = settle(state(), stopped_cleanly(0, stopped_at=9), TWO, proved(proof()))

    assert after.leader == NO_LEADER


def test_a_process_that_registers_anew_is_as_good_as_one_that_stopped_cleanly() -> None:
    same_process = Nodes({0: Node(EPOCH, False, 0, running_since=8)}, {})

    assert settle(state(), same_process, TWO, proved(proof())).leader == 0


def test_where_a_process_never_stopped_nobody_has_to_prove_anything_and_the_others_join_by_fetching() -> None:
    now = Nodes({0: Node(EPOCH, False, EPOCH), 1: Node(1, False, 0), 2: Node(1, False, 0)}, {})

    after = settle(state(), now, TWO)

    assert (after.leader, after.in_sync_nodes) == (1, (1, 2))
    assert not awaited(state(), now, TWO, Evidence())


def test_c60_a_damaged_copy_does_not_lead_however_long_it_is() -> None:
    after = settle(state(), crashed(*ALL), TWO, proved(proof(12, damage=((4, 7),)), proof(), proof()))

    assert (after.leader, after.in_sync_nodes) == (1, (1, 2))


def test_an_offline_log_does_not_lead() -> None:
    after = settle(state(), crashed(*ALL), TWO, proved(proof(-1, -1, is_offline=True), proof(), proof()))

    assert after.leader == 1


def test_a_log_that_was_made_after_it_became_a_member_is_no_member() -> None:
    after = settle(state(), crashed(*ALL), TWO, proved(proof(0, -1, generation=EPOCH), proof(), proof()))

    assert (after.leader, after.in_sync_nodes) == (1, (1, 2))
    alone = settle(state(0), crashed(0), TWO, proved(proof(0, -1, generation=EPOCH)))
    assert (alone.leader, alone.in_sync_nodes) == (NO_LEADER, (0,))


def test_a_topic_of_which_no_broker_had_made_its_log_when_all_stopped_starts_empty() -> None:
    new = proof(0, -1, generation=EPOCH)

    after = settle(state(), crashed(*ALL), TWO, proved(new, new, new))
    assert (after.leader, after.in_sync_nodes) == (0, ALL)

    before = state(0, 1)
    assert awaited(before, crashed(0, 1), TWO, proved(new, new)) == Awaited(gone=(2,)), "it may have records"
    assert settle(before, crashed(0, 1), TWO, proved(new, new)).leader == NO_LEADER
    assert awaited(before, crashed(*ALL), TWO, proved(new, new)) == Awaited(unproven=(2,))
    assert settle(before, crashed(*ALL), TWO, proved(new, new, new)).leader == 0
    assert settle(before, crashed(*ALL), TWO, proved(new, new, proof(3))).leader == NO_LEADER, "they lost their folders"


def test_a_stale_proof_neither_elects_nor_demotes() -> None:
    before = state()
    for stale in (
        proof(99, broker_epoch=EPOCH - 1),
        proof(99, directory_id="another"),
        proof(99, epoch=2),
        proof(99, broker_epoch=EPOCH - 1, damage=((0, 1),)),
    ):
        known = proved(stale, proof(), proof())
        assert settle(before, crashed(*ALL), TWO, known) is before
        assert awaited(before, crashed(*ALL), TWO, known).unproven == (0,)


def test_without_a_sound_copy_the_partition_waits_for_an_operator_who_gets_the_best_one() -> None:
    damaged = proved(proof(8, damage=((1, 2),)), proof(10, damage=((1, 2),)), proof(-1, -1, is_offline=True))

    waiting = settle(state(), crashed(*ALL), TWO, replace(damaged, is_overdue=True))

    assert (waiting.leader, waiting.in_sync_nodes) == (NO_LEADER, ALL)
    after = recover(waiting, crashed(*ALL), damaged)
    assert (after.leader, after.in_sync_nodes, after.is_recovered) == (1, (1,), True)
    assert recover(waiting, crashed(2), damaged) is waiting, "a log that cannot be opened leads nothing"


def test_an_operator_gets_the_copy_that_loses_least() -> None:
    leaderless = state(leader=NO_LEADER)

    def elected(*proofs: Proof) -> int:
        return recover(leaderless, crashed(*ALL), proved(*proofs)).leader

    same, nearly_all = ((7, 8),), ((0, 8),)
    assert elected(proof(damage=((2, 4), *same)), proof(damage=same), proof(8, damage=same)) == 1, "fewest damaged"
    assert elected(proof(10, damage=nearly_all), proof(9, damage=same), proof(3, damage=((1, 3),))) == 1
    assert elected(proof(50, last_epoch=2), proof(8, damage=same), proof(8, damage=nearly_all)) == 1, "a later epoch"


def test_an_operator_gets_the_copy_that_another_makes_whole() -> None:
    leaderless = state(leader=NO_LEADER)
    early, late, both = ((2, 5),), ((7, 8),), ((2, 5), (7, 8))

    def elected(is_compacted: bool) -> int:
        copies = [proof(damage=ranges, is_compacted=is_compacted) for ranges in (both, late, early)]
        return recover(leaderless, crashed(*ALL), proved(*copies)).leader

    assert elected(is_compacted=False) == 2, "broker 1 keeps 0 to 6 and fetches 7 to 9, then broker 2 is repaired"
    assert elected(is_compacted=True) == 1, "it would have to fetch everything"


def test_whom_a_partition_waits_for_is_told() -> None:
    leaderless = state(leader=NO_LEADER)

    assert wait_of(state(leader=1), steady(*ALL), TWO, Evidence()) is None
    assert wait_of(leaderless, crashed(*ALL), TWO, Evidence()) == Wait(unproven=ALL, is_bounded=True)
    some = Evidence({0: proof(), 1: proof()})
    assert wait_of(leaderless, crashed(0, 1), TWO, some) == Wait(gone=(2,), is_bounded=True)
    assert wait_of(leaderless, crashed(), TWO, Evidence()) == Wait(gone=ALL)
    lost = wait_of(leaderless, crashed(*ALL), TWO, faulty(*ALL))
    assert lost is not None
    assert lost.is_for_operator
    assert replica_problems(leaderless, faulty(1)) == ["broker 1: offsets 4 to 6 damaged"]
    assert replica_problems(leaderless, faulty(1, is_offline=True)) == ["broker 1: offline (checksum)"]


def test_a_broker_that_cannot_prove_anything_is_trusted_as_before() -> None:
    older = Nodes({0: Node(EPOCH, False, 0, 10, proves_logs=False)}, {})

    assert settle(state(0), older, TWO).leader == 0


def alive(*node_ids: int) -> Nodes:
    return Nodes({node_id: Node(1, False, 0) for node_id in node_ids}, {})


def test_damage_that_a_running_leader_finds_moves_leadership_and_has_its_copy_repaired() -> None:
    after = settle(state(), alive(*ALL), TWO, faulty(0))

    assert (after.leader, after.in_sync_nodes, after.damaged, after.leader_epoch) == (1, (1, 2), (0,), 4)
    assert settle(after, alive(*ALL), TWO, faulty(0)) is after


def test_a_damaged_follower_leaves_the_set_in_a_new_epoch_so_that_its_progress_counts_no_more() -> None:
    after = settle(state(), alive(*ALL), TWO, faulty(2))

    assert (after.leader, after.in_sync_nodes, after.damaged, after.leader_epoch) == (0, (0, 1), (2,), 4)


def test_a_repaired_copy_is_let_in_again_in_a_new_epoch() -> None:
    damaged = settle(state(), alive(*ALL), TWO, faulty(2))

    after = settle(damaged, alive(*ALL), TWO)

    assert (after.damaged, after.leader, after.leader_epoch) == ((), 0, 5)


def test_a_damaged_copy_whose_broker_is_away_stays_damaged() -> None:
    damaged = settle(state(), alive(*ALL), TWO, faulty(2))

    assert settle(damaged, alive(0, 1), TWO) is damaged


def test_a_leader_with_damage_leads_on_where_no_sound_copy_is_there() -> None:
    before = state(0)

    assert settle(before, alive(*ALL), TWO, faulty(0)) is before
    assert settle(before, alive(*ALL), TWO, faulty(0, is_offline=True)).leader == NO_LEADER


def test_an_eligible_copy_leads_instead_of_a_damaged_one() -> None:
    after = settle(state(0, eligible=(1,)), alive(0, 1), TWO, faulty(0))

    assert (after.leader, after.in_sync_nodes, after.damaged) == (1, (1,), (0,))


def test_leadership_does_not_go_back_to_a_damaged_copy() -> None:
    before = state(1, 0, leader=1)

    assert prefer(before, alive(0, 1), TWO, faulty(0)) is before


def test_a_sole_replica_leads_whatever_is_the_matter_with_it() -> None:
    sole = PartitionState(leader=0, leader_epoch=3, replicas=(0,), in_sync=(Member(0, 10),))

    assert settle(sole, crashed(0), TWO).leader == 0
    assert settle(sole, alive(0), TWO, faulty(0)) is sole


def test_flushing_that_was_switched_on_later_vouches_for_nothing_of_before() -> None:
    """A crashed replica that is in doubt is not trusted because its topic is flushed from now on."""
    after = settle(state(0), crashed(0), Rules(2, flushed_since=15), proved(proof(), is_overdue=True))
    assert after.leader == 0, "it is all there is"

    in_doubt = state(0, eligible=(1,))
    after = settle(in_doubt, crashed(0), Rules(2, flushed_since=15), proved(proof(), is_overdue=True))
    assert after.leader == NO_LEADER, "broker 1 may have more"
    assert settle(in_doubt, crashed(0), Rules(2, flushed_since=10), proved(proof(), is_overdue=True)).leader == 0


extents = st.tuples(st.integers(0, 3), st.integers(0, 5))


@given(
    copies=st.lists(st.tuples(extents, st.booleans()), min_size=3, max_size=3),
    in_sync=st.sets(st.sampled_from(ALL), min_size=1),
    reported=st.sets(st.sampled_from(ALL)),
    is_overdue=st.booleans(),
)
def test_a_sound_copy_with_the_greatest_extent_leads_and_settling_twice_changes_nothing(
    copies: list[tuple[tuple[int, int], bool]], in_sync: set[int], reported: set[int], is_overdue: bool
) -> None:
    before = state(*sorted(in_sync), eligible=tuple(sorted(set(ALL) - in_sync)), leader=min(in_sync))
    proofs = {
        node_id: proof(end, last_epoch, damage=() if is_sound else ((0, 1),))
        for node_id, ((last_epoch, end), is_sound) in enumerate(copies)
    }
    evidence = replace(faulty(*sorted(reported)), proofs=proofs, is_overdue=is_overdue)

    once = settle(before, crashed(*ALL), TWO, evidence)

    sound = [node_id for node_id, (_, is_sound) in enumerate(copies) if is_sound and node_id not in reported]
    if sound:
        greatest = max(copies[node_id][0] for node_id in sound)
        assert once.leader in sound
        assert set(once.in_sync_nodes) == {node_id for node_id in sound if copies[node_id][0] == greatest}
    else:
        assert once.leader == NO_LEADER
    assert settle(once, crashed(*ALL), TWO, evidence) is once


def test_time_that_is_over_ends_the_wait_for_brokers_that_are_away_and_not_for_proofs() -> None:
    """A sound broker that has just registered may have what the one that waited all the time has lost."""
    before, known = state(), Evidence({0: proof(5)}, is_overdue=True)

    assert settle(before, crashed(0, 1), TWO, known) is before
    assert settle(before, crashed(0, 1), TWO, replace(known, silent=frozenset({1}))).leader == 0


def test_without_a_leader_no_copy_is_given_up_as_damaged() -> None:
    before = replace(state(0, eligible=(1,)), leader=NO_LEADER)

    waiting = settle(before, alive(1), TWO, faulty(1, is_offline=True))

    assert (waiting.damaged, [one.node_id for one in waiting.eligible]) == ((), [1])
    assert settle(waiting, alive(1), TWO).leader == 1, "it can be opened again, and misses nothing"


def test_a_damaged_sole_leader_that_registers_anew_leads_on_in_a_new_epoch() -> None:
    same_process = Nodes({0: Node(EPOCH, False, 0, running_since=8)}, {})

    after = settle(state(0), same_process, TWO, faulty(0))

    assert (after.leader, after.leader_epoch, after.in_sync) == (0, 4, (Member(0, EPOCH),))


def test_an_unclean_election_waits_where_a_clean_one_would_and_nowhere_else() -> None:
    rules = Rules(2, is_unclean_allowed=True)

    assert settle(state(0, 1), crashed(0), rules, proved(proof())).leader == NO_LEADER
    assert settle(state(0, 1), crashed(0), rules, proved(proof(), is_overdue=True)).leader == 0
    assert settle(state(0, 1), alive(2), rules).leader == 2, "no member is there"


def test_a_log_with_an_epoch_that_no_leader_has_had_is_damaged() -> None:
    after = settle(state(), crashed(*ALL), TWO, proved(proof(10, 524_291), proof(), proof()))

    assert (after.leader, after.in_sync_nodes) == (1, (1, 2))


def test_beside_a_broker_that_cannot_prove_anything_extents_are_not_compared() -> None:
    mixed = Nodes({0: Node(EPOCH, False, EPOCH), 1: Node(EPOCH, False, 0, 10, proves_logs=False)}, {})

    after = settle(state(0, 1), mixed, TWO, proved(proof(3)))

    assert after.in_sync_nodes == (0, 1)
