"""Reassignments: begun, changed and cancelled, decided on an image."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from qanat.cluster import keys, values
from qanat.cluster.controller import leaders_to_move
from qanat.cluster.elections import Rules
from qanat.cluster.image import MetadataImage
from qanat.cluster.proofs import NOTHING_KNOWN, Evidence
from qanat.cluster.reassignments import PartitionPlan, decide_election, decide_reassignment
from qanat.cluster.rejection import Rejection
from qanat.cluster.store import Entry, Revision, Snapshot
from qanat.cluster.values import NO_LEADER, Member, PartitionState
from qanat.model.error_codes import ErrorCode

_TOPIC = values.Topic(name="t", topic_id="AAAAAAAAAAAAAAAAAAAAAQ", partitions=((0, 1),))


def _image(state: PartitionState, alive: Sequence[int]) -> MetadataImage:
    """A cluster of these brokers and one partition."""
    contents = {
        keys.topic("t"): values.encode(_TOPIC),
        keys.partition(_TOPIC.identity, 0): values.encode(state),
    }
    for node_id in alive:
        registration = values.BrokerRegistration(node_id=node_id, incarnation="x", listeners=())
        contents[keys.broker(node_id)] = values.encode(registration)
    entries = tuple(Entry(key, value, Revision(1), Revision(1)) for key, value in contents.items())
    return MetadataImage.of(Snapshot(entries, Revision(1)))


def _after(state: PartitionState, target: Sequence[int] | None, alive: Sequence[int] = (0, 1, 2, 3)) -> PartitionState:
    plan = decide_reassignment(_image(state, alive), "t", 0, target)
    assert isinstance(plan, PartitionPlan), plan
    return plan.after


def _moving(leader: int, in_sync: Sequence[int]) -> PartitionState:
    """On its way from brokers 0 and 1 to 2 and 3."""
    return PartitionState(
        leader=leader,
        leader_epoch=7,
        replicas=(2, 3, 0, 1),
        in_sync=tuple(Member(node_id, 1) for node_id in in_sync),
        adding=(2, 3),
        removing=(0, 1),
    )


def test_a_move_leaves_everybody_in_place_until_it_is_over() -> None:
    before = PartitionState(leader=0, leader_epoch=7, replicas=(0, 1), in_sync=(Member(0, 1), Member(1, 1)))

    after = _after(before, [2, 3])

    assert after == _moving(0, (0, 1))


def test_c20_a_move_that_is_taken_back_leaves_what_was_there() -> None:
    after = _after(_moving(0, (0, 1, 2)), None)

    assert (after.replicas, after.in_sync_nodes, after.adding, after.removing) == ((0, 1), (0, 1), (), ())
    assert (after.leader, after.leader_epoch) == (0, 8), "what the newcomers still say of their copies must not count"


def test_c20_a_newcomer_that_leads_already_hands_over_when_its_move_is_taken_back() -> None:
    after = _after(_moving(2, (1, 2)), None)

    assert (after.replicas, after.in_sync_nodes) == ((0, 1), (1,))
    assert (after.leader, after.leader_epoch) == (1, 8), "whoever leads is in sync, and another leader is another epoch"


def test_c20_nobody_leads_where_the_only_one_left_in_sync_is_away() -> None:
    after = _after(_moving(2, (1, 2)), None, alive=(0, 2, 3))

    assert (after.leader, after.leader_epoch, after.in_sync_nodes) == (NO_LEADER, 8, (1,))


def test_c20_a_move_is_not_taken_back_where_nobody_from_before_is_in_sync() -> None:
    refused = decide_reassignment(_image(_moving(2, (2, 3)), (0, 1, 2, 3)), "t", 0, None)

    assert isinstance(refused, Rejection)
    assert refused.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_c20_a_move_that_is_taken_back_where_nobody_leads_is_no_new_epoch() -> None:
    after = _after(_moving(NO_LEADER, (0, 1)), None)

    assert (after.leader, after.leader_epoch, after.replicas) == (NO_LEADER, 7, (0, 1))


def test_c20_a_newcomer_is_not_eligible_once_its_move_is_taken_back() -> None:
    """Found in simulation: it lost its log with its move, was added again, and was still eligible."""
    before = replace(_moving(0, (0,)), eligible=(Member(1, 1), Member(2, 1)))

    assert _after(before, None).eligible == (Member(1, 1),)


# Rejections


@pytest.mark.parametrize(("name", "number"), [("other", 0), ("t", -1), ("t", 1), ("t", 2)])
def test_a_partition_that_does_not_exist_is_neither_moved_nor_given_a_leader(name: str, number: int) -> None:
    image = _image(_moving(0, (0, 1)), (0, 1))

    for refused in (
        decide_reassignment(image, name, number, [0, 1]),
        decide_election(image, name, number, Rules(), is_unclean=False),
    ):
        assert isinstance(refused, Rejection)
        assert refused.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("target", [[], [0, 9], [0, 1, 0]])
def test_a_move_to_nobody_to_a_stranger_or_to_one_broker_twice_is_refused(target: list[int]) -> None:
    refused = decide_reassignment(_image(_moving(0, (0, 1)), (0, 1, 2, 3)), "t", 0, target)

    assert isinstance(refused, Rejection)
    assert refused.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_where_nothing_is_moved_nothing_can_be_taken_back() -> None:
    before = PartitionState(leader=0, leader_epoch=7, replicas=(0, 1), in_sync=(Member(0, 1), Member(1, 1)))
    refused = decide_reassignment(_image(before, (0, 1)), "t", 0, None)

    assert isinstance(refused, Rejection)
    assert refused.code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_a_move_that_only_adds_or_only_removes_can_be_taken_back() -> None:
    both = (Member(0, 1), Member(1, 1))
    adding = PartitionState(leader=0, leader_epoch=7, replicas=(0, 1, 2), in_sync=both, adding=(2,))
    removing = PartitionState(leader=0, leader_epoch=7, replicas=(0, 1), in_sync=both, removing=(1,))

    assert _after(adding, None).replicas == (0, 1)
    after = _after(removing, None)
    assert (after.replicas, after.removing, after.leader_epoch) == ((0, 1), (), 7)


def test_a_newcomer_of_a_move_that_is_changed_on_the_way_is_still_one() -> None:
    after = _after(_moving(0, (0, 1)), [2, 1])

    assert (after.adding, after.removing) == ((2,), (3, 0))


# Leaders chosen by an operator


def _elected(state: PartitionState, alive: Sequence[int], *, is_unclean: bool) -> PartitionState | ErrorCode:
    plan = decide_election(_image(state, alive), "t", 0, Rules(), is_unclean=is_unclean)
    return plan.after if isinstance(plan, PartitionPlan) else plan.code


def _led(leader: int, *in_sync: int) -> PartitionState:
    members = tuple(Member(node_id, 1) for node_id in in_sync)
    return PartitionState(leader=leader, leader_epoch=7, replicas=(0, 1), in_sync=members)


def test_the_preferred_replica_leads_in_a_new_epoch_when_it_is_in_sync_and_alive() -> None:
    after = _elected(_led(1, 1, 0), (0, 1), is_unclean=False)

    assert isinstance(after, PartitionState)
    assert (after.leader, after.leader_epoch, after.in_sync_nodes) == (0, 8, (1, 0))
    assert _elected(_led(0, 1, 0), (0, 1), is_unclean=False) is ErrorCode.ELECTION_NOT_NEEDED
    assert _elected(_led(1, 1), (0, 1), is_unclean=False) is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert _elected(_led(1, 1, 0), (1,), is_unclean=False) is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE


def test_c14_an_unclean_election_by_hand_is_for_partitions_that_nobody_leads() -> None:
    after = _elected(_led(NO_LEADER, 1), (0,), is_unclean=True)

    assert isinstance(after, PartitionState)
    assert (after.leader, after.leader_epoch, after.in_sync_nodes, after.is_recovered) == (0, 8, (0,), True)
    assert _elected(_led(1, 1), (0, 1), is_unclean=True) is ErrorCode.ELECTION_NOT_NEEDED
    assert _elected(_led(NO_LEADER, 1), (), is_unclean=True) is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    assert _elected(_led(1, 1), (0,), is_unclean=True) is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


def nothing_known(topic_id: str, number: int) -> Evidence:
    return NOTHING_KNOWN


def test_leaders_are_moved_where_the_preferred_replica_can_lead_and_unknown_topics_are_passed_over() -> None:
    image = _image(_led(1, 1, 0), (0, 1))
    (change,) = leaders_to_move(image, lambda _: Rules(), nothing_known, ["gone", "t"])

    assert (change.before.leader, change.after.leader, change.after.leader_epoch) == (1, 0, 8)
    assert list(leaders_to_move(_image(_led(0, 1, 0), (0, 1)), lambda _: Rules(), nothing_known, ["t"])) == []
