"""Leader elections: the corner cases of replication that are about elections (C08 to C16, C20, C23)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.cluster.images import apply, image_with, registration

from qanat.cluster import elections, keys, values
from qanat.cluster.elections import Rules, prefer, recover, with_in_sync
from qanat.cluster.nodes import MemberStatus, MemberStatuses, Node, Nodes
from qanat.cluster.proofs import Evidence, Proof
from qanat.cluster.store import Put
from qanat.cluster.values import NO_LEADER, Member, PartitionState

TWO = Rules(min_insync_replicas=2)
UNFLUSHED = Rules(min_insync_replicas=2, flushed_since=None)


def state(leader: int = 0, *in_sync: int, epoch: int = 0, replicas: tuple[int, ...] = (0, 1, 2)) -> PartitionState:
    members = tuple(Member(node_id, 10) for node_id in in_sync or replicas)
    return PartitionState(leader=leader, leader_epoch=epoch, replicas=replicas, in_sync=members)


def nodes(
    *alive: int,
    since: int = 1,
    back: tuple[int, ...] = (),
    stopping: tuple[int, ...] = (),
    crashed: tuple[int, ...] = (),
) -> Nodes:
    """Brokers: `alive` since before the members were written, `back` since after, `crashed` back after a crash."""
    known = {node_id: Node(since, node_id in stopping, 0) for node_id in alive}
    known |= {node_id: Node(20, False, 0, stopped_at=19) for node_id in back}
    known |= {node_id: Node(20, False, 20) for node_id in crashed}
    return Nodes(known, {})


def settle(before: PartitionState, now: Nodes, rules: Rules) -> PartitionState:
    """The settled state where every broker has proved that its log is sound, and all logs are equal.

    What proofs change is tested in `test_proofs.py`.
    """
    proofs = {
        node_id: Proof(node.epoch, node.directory_id, before.leader_epoch, 0, before.leader_epoch, 100)
        for node_id, node in now.alive.items()
    }
    return elections.settle(before, now, rules, Evidence(proofs, is_overdue=True))


def test_what_is_well_is_left_alone() -> None:
    before = state()

    assert settle(before, nodes(0, 1, 2), TWO) is before


def test_the_next_member_leads_when_the_leader_is_gone() -> None:
    after = settle(state(), nodes(1, 2), TWO)

    assert (after.leader, after.leader_epoch, after.in_sync_nodes) == (1, 1, (1, 2))


def test_who_is_not_in_sync_does_not_lead() -> None:
    after = settle(state(0, 0, 2), nodes(1, 2), TWO)

    assert after.leader == 2


def test_c14_without_a_member_the_partition_waits_and_nothing_is_lost() -> None:
    after = settle(state(0, 0), nodes(1, 2), Rules())

    assert (after.leader, after.leader_epoch, after.in_sync_nodes) == (NO_LEADER, 1, (0,))
    assert settle(after, nodes(1, 2), Rules()) is after


def test_c14_an_unclean_election_is_a_new_epoch_and_is_marked() -> None:
    after = settle(state(0, 0), nodes(1, 2), Rules(is_unclean_allowed=True))

    assert (after.leader, after.leader_epoch, after.in_sync_nodes, after.is_recovered) == (1, 1, (1,), True)


def test_c14_an_operator_may_ask_for_it_where_nobody_leads() -> None:
    waiting = settle(state(0, 0), nodes(1), Rules())

    assert recover(waiting, nodes(1)).leader == 1
    assert recover(state(), nodes(0, 1, 2)).leader == 0, "where somebody leads, nothing is done"


def test_the_last_member_leads_again_when_it_is_back() -> None:
    waiting = settle(state(0, 0), nodes(1), Rules())

    after = settle(waiting, nodes(1, back=(0,)), Rules())

    assert (after.leader, after.leader_epoch, after.in_sync) == (0, 2, (Member(0, 20),))


def test_c13_the_last_replica_standing_is_not_elected_over_those_that_miss_nothing() -> None:
    alone = settle(settle(state(), nodes(1, 2), TWO), nodes(2), UNFLUSHED)
    assert (alone.leader, alone.in_sync_nodes, [one.node_id for one in alone.eligible]) == (2, (2,), [1])
    dark = settle(alone, nodes(), UNFLUSHED)

    after = settle(dark, nodes(crashed=(2,)), UNFLUSHED)
    assert after.leader == NO_LEADER, "it may have lost its end, and broker 1 has everything"

    after = settle(after, nodes(back=(1,), crashed=(2,)), UNFLUSHED)
    assert after.leader == 1


def test_c13_where_everybody_crashed_the_last_one_leads() -> None:
    dark = settle(state(0, 0), nodes(), UNFLUSHED)

    assert settle(dark, nodes(crashed=(0,)), UNFLUSHED).leader == 0


def test_c13_where_those_that_were_better_come_back_in_doubt_too_the_last_in_sync_leads_and_alone() -> None:
    """Found in simulation: it was forgotten while the election waited for another (seed 306754)."""
    alone = settle(settle(state(), nodes(1, 2), TWO), nodes(2), UNFLUSHED)
    waiting = settle(settle(alone, nodes(), UNFLUSHED), nodes(crashed=(2,)), UNFLUSHED)
    assert waiting.leader == NO_LEADER
    assert settle(waiting, nodes(crashed=(2,)), UNFLUSHED) is waiting

    after = settle(waiting, nodes(crashed=(1, 2)), UNFLUSHED)

    assert (after.leader, after.in_sync_nodes, after.eligible) == (2, (2,), ())
    assert settle(after, nodes(crashed=(1, 2)), UNFLUSHED) is after


def test_a_crash_loses_nothing_where_records_are_on_disk_before_they_are_acknowledged() -> None:
    dark = settle(state(0, 0), nodes(), Rules())

    assert settle(dark, nodes(crashed=(0,)), Rules()).leader == 0


def test_an_eligible_replica_leads_where_no_member_is_alive() -> None:
    alone = settle(settle(state(), nodes(1, 2), TWO), nodes(2), TWO)

    after = settle(alone, nodes(back=(1,)), TWO)

    assert (after.leader, after.in_sync_nodes) == (1, (1,))
    assert [one.node_id for one in after.eligible] == [2], "whoever was in sync then misses nothing either"


def test_c02_a_leader_that_restarts_leads_in_a_new_epoch() -> None:
    after = settle(state(), nodes(1, 2, back=(0,)), TWO)

    assert (after.leader, after.leader_epoch) == (1, 1), "whoever never stopped comes first"
    alone = settle(state(0, 0), nodes(back=(0,)), Rules())
    assert (alone.leader, alone.leader_epoch) == (0, 1)


def test_a_sole_replica_that_restarts_goes_on_in_its_epoch() -> None:
    before = state(0, 0, replicas=(0,))

    assert settle(before, nodes(back=(0,)), Rules()).leader_epoch == 0


def test_c10_a_node_that_lost_its_disk_is_a_member_of_nothing() -> None:
    emptied = Nodes({node_id: Node(20, False, 0, stopped_at=19) for node_id in (0, 1, 2)}, {0: 15})

    after = settle(state(), emptied, TWO)

    assert (after.leader, after.in_sync_nodes) == (1, (1, 2))


def test_c10_the_only_member_that_lost_its_disk_does_not_lead_by_itself() -> None:
    emptied = Nodes({0: Node(20, False, 0), 1: Node(1, False, 0)}, {0: 15})

    after = settle(state(0, 0), emptied, Rules())

    assert (after.leader, after.in_sync) == (NO_LEADER, ())


def test_a_broker_that_is_about_to_stop_hands_over() -> None:
    after = settle(state(), nodes(0, 1, 2, stopping=(0,)), TWO)

    assert (after.leader, after.leader_epoch, after.in_sync_nodes) == (1, 1, (1, 2))


def test_a_broker_that_is_about_to_stop_leads_on_where_nobody_else_can() -> None:
    before = state(0, 0)

    assert settle(before, nodes(0, 1, stopping=(0,)), Rules()).leader == 0


def test_c20_a_move_ends_when_every_new_replica_is_in_sync() -> None:
    moving = PartitionState(
        leader=0,
        leader_epoch=3,
        replicas=(1, 2, 0),
        in_sync=(Member(0, 10), Member(1, 10)),
        adding=(1, 2),
        removing=(0,),
    )
    assert settle(moving, nodes(0, 1, 2), Rules()) is moving
    whole = with_in_sync(moving, (0, 1, 2), {2: 10}, Rules())

    after = settle(whole, nodes(0, 1, 2), Rules())

    assert (after.replicas, after.adding, after.removing) == ((1, 2), (), ())
    assert (after.leader, after.leader_epoch, after.in_sync_nodes) == (1, 4, (1, 2))


def test_c20_a_move_that_is_over_is_another_epoch_for_whoever_is_gone() -> None:
    """Found in simulation: a broker that was a replica, was removed, and was a replica again before it learned of the
    removal rejoined the in-sync set with a log that it then deleted."""
    grown = PartitionState(
        leader=0,
        leader_epoch=3,
        replicas=(0, 2, 1),
        in_sync=(Member(0, 10), Member(1, 10), Member(2, 10)),
        adding=(2,),
    )
    moved = replace(grown, removing=(1,))

    assert (settle(moved, nodes(0, 1, 2), Rules()).leader, settle(moved, nodes(0, 1, 2), Rules()).leader_epoch) == (
        0,
        4,
    )
    assert settle(grown, nodes(0, 1, 2), Rules()).leader_epoch == 3, "nobody is gone"


def test_c20_the_leader_of_a_move_dies_and_the_move_goes_on() -> None:
    moving = PartitionState(
        leader=0,
        leader_epoch=3,
        replicas=(1, 2, 0),
        in_sync=(Member(0, 10), Member(1, 10)),
        adding=(1, 2),
        removing=(0,),
    )

    after = settle(moving, nodes(1, 2), Rules())

    assert (after.leader, after.adding, after.removing) == (1, (1, 2), (0,))


def test_the_preferred_replica_leads_again_once_it_is_in_sync() -> None:
    assert prefer(state(1, 0, 1), nodes(0, 1), TWO).leader == 0
    lagging = state(1, 1, 2)
    assert prefer(lagging, nodes(0, 1, 2), TWO) is lagging
    restarted = state(1, 0, 1)
    assert prefer(restarted, nodes(1, back=(0,)), TWO) is restarted


def test_a_set_that_becomes_too_small_remembers_who_misses_nothing() -> None:
    after = with_in_sync(state(), (0,), {}, TWO)

    assert (after.in_sync_nodes, [one.node_id for one in after.eligible]) == ((0,), [1, 2])
    assert with_in_sync(after, (0, 1), {1: 10}, TWO).eligible == ()


@given(
    alive=st.sets(st.integers(0, 3)),
    back=st.sets(st.integers(0, 3)),
    in_sync=st.sets(st.integers(0, 2), min_size=1),
    is_unclean=st.booleans(),
)
def test_settling_twice_changes_nothing(alive: set[int], back: set[int], in_sync: set[int], is_unclean: bool) -> None:
    before = state(min(in_sync), *sorted(in_sync))
    now = nodes(*sorted(alive - back), back=tuple(sorted(back)))
    rules = Rules(2, is_unclean_allowed=is_unclean)

    once = settle(before, now, rules)

    assert settle(once, now, rules) is once
    assert once.leader == NO_LEADER or once.leader in once.in_sync_nodes, "C24: LeaderInIsr"
    assert once.leader_epoch in (before.leader_epoch, before.leader_epoch + 1)
    assert (once.leader == before.leader) or once.leader_epoch == before.leader_epoch + 1


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_whoever_goes_a_member_leads(gone: int) -> None:
    after = settle(state(), nodes(*({0, 1, 2} - {gone})), TWO)

    assert after.leader in {0, 1, 2} - {gone}
    assert gone not in after.in_sync_nodes


def test_c13_what_was_in_sync_before_a_crash_stays_doubtful_however_often_the_broker_registers_after_it() -> None:
    back_again = Nodes({0: Node(40, False, 31)}, {})
    proved = Evidence({0: Proof(40, "", 0, 0, 0, 100)})

    assert MemberStatuses(state(), back_again, None, proved).of(Member(0, 10)) is MemberStatus.DOUBTFUL
    assert MemberStatuses(state(), back_again, None, proved).of(Member(0, 31)) is MemberStatus.BACK
    assert MemberStatuses(state(), back_again, 0, proved).of(Member(0, 10)) is MemberStatus.BACK


def test_a_preferred_replica_takes_over_only_from_another_that_leads_and_only_when_it_may_lead() -> None:
    nobody = replace(state(), leader=NO_LEADER)
    assert prefer(nobody, nodes(0, 1, 2), TWO) is nobody, "whoever leads is elected, not preferred"
    led = state(1)
    assert prefer(led, nodes(1, 2, 0, stopping=(0,)), TWO) is led
    assert prefer(led, nodes(0, 1, 2), TWO).leader == 0


def test_c14_an_operator_gets_no_leader_where_no_replica_is_alive_or_one_leads() -> None:
    waiting = replace(state(0, 0), leader=NO_LEADER)
    led = state(1, 1)

    assert recover(waiting, nodes()) is waiting
    assert recover(led, nodes(0, 1, 2)) is led


def test_a_leader_after_an_unclean_election_is_marked_until_the_next_one() -> None:
    recovered = settle(state(0, 0), nodes(1, 2), Rules(is_unclean_allowed=True))
    assert recovered.is_recovered

    after = settle(replace(recovered, in_sync=(Member(1, 10), Member(2, 10))), nodes(2), Rules())
    assert (after.leader, after.is_recovered) == (2, False)


def test_who_was_eligible_and_is_in_sync_again_is_not_eligible_as_well() -> None:
    before = replace(state(0, 0), eligible=(Member(1, 10), Member(2, 10)))

    after = with_in_sync(before, (0, 1), {1: 12}, Rules(min_insync_replicas=3))
    assert (after.in_sync_nodes, [one.node_id for one in after.eligible]) == ((0, 1), [2])


def test_c20_a_move_that_adds_or_removes_ends_when_its_target_is_in_sync_and_no_other_state_is_one() -> None:
    adding = replace(state(0, 0, 1, 2), adding=(2,))
    removing = replace(state(0, 0, 1, 2), removing=(2,))

    after = settle(adding, nodes(0, 1, 2), TWO)
    assert (after.replicas, after.adding, after.leader_epoch) == ((0, 1, 2), (), 0)
    after = settle(removing, nodes(0, 1, 2), TWO)
    assert (after.replicas, after.removing, after.in_sync_nodes, after.leader_epoch) == ((0, 1), (), (0, 1), 1)


def test_a_leader_that_stops_goes_on_where_no_other_member_is_ready() -> None:
    before = state(0, 0, 1)

    assert settle(before, nodes(0, 1, stopping=(0, 1)), TWO) is before
    assert settle(before, nodes(0, 1, stopping=(0,)), TWO).leader == 1


def test_a_stopping_member_leads_where_no_other_is_left() -> None:
    after = settle(state(0, 0, 1), nodes(1, stopping=(1,)), Rules())

    assert (after.leader, after.leader_epoch) == (1, 1)


def test_what_is_eligible_and_stops_is_not_elected() -> None:
    before = replace(state(0, 0), eligible=(Member(1, 10),))

    assert settle(before, nodes(1, stopping=(1,)), TWO).leader == NO_LEADER


def test_a_member_is_empty_only_where_its_directory_is_newer_than_its_membership() -> None:
    known = Nodes({1: Node(1, False, 0)}, {1: 10})

    assert MemberStatuses(state(), known, 0).of(Member(1, 10)) is MemberStatus.STEADY
    assert MemberStatuses(state(), known, 0).of(Member(1, 9)) is MemberStatus.EMPTY
    assert MemberStatuses(state(), Nodes({1: Node(0, False, 0)}, {}), 0).of(Member(1, 0)) is MemberStatus.STEADY


def test_c13_who_may_have_lost_its_end_is_not_eligible_beside_the_one_that_is_elected() -> None:
    before = replace(state(0, 0), eligible=(Member(1, 10), Member(2, 10)))

    after = settle(before, nodes(back=(1,), crashed=(2,)), UNFLUSHED)
    assert (after.leader, after.in_sync_nodes) == (1, (1,))
    assert [one.node_id for one in after.eligible] == [0], "broker 0 is away and misses nothing; 2 is in doubt"


def test_the_first_replica_in_the_order_of_preference_leads_whatever_the_order_of_the_set() -> None:
    assert settle(state(0, 0, 2, 1), nodes(1, 2), TWO).leader == 1


@pytest.mark.parametrize(
    ("is_clean", "said", "sound_since"),
    [(True, None, 0), (False, None, 4), (False, values.SINCE_NOW, 4), (True, 2, 2)],
    ids=["stopped cleanly", "crashed", "crashed and says so", "crashed before"],
)
def test_c13_a_broker_is_sound_since_its_last_crash_or_since_ever(
    is_clean: bool, said: int | None, sound_since: int
) -> None:
    image = image_with((0, 1))
    for _ in range(3):
        registered = replace(registration(1), is_clean=is_clean, sound_since=said)
        apply(image, [Put(keys.broker(1), values.encode(registered))])

    node = Nodes.of(image).alive[1]
    assert (node.epoch, node.sound_since) == (image.broker_epochs[1], sound_since)


def test_a_broker_that_is_not_there_is_not_back_from_a_clean_shutdown() -> None:
    assert not nodes(0).is_clean(Member(1, 10))
    assert nodes(0, back=(1,)).is_clean(Member(1, 10))
