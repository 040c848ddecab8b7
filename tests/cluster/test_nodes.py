"""What the controller makes of a member and its broker: the same process, back, in doubt, or without its data."""

from __future__ import annotations

import pytest

from qanat.cluster.nodes import MemberStatus, MemberStatuses, Node, Nodes
from qanat.cluster.proofs import Evidence, Proof
from qanat.cluster.values import Member, PartitionState

SINCE = 10
MEMBER = Member(0, SINCE)
STEADY, BACK = Node(SINCE, False, 0), Node(20, False, 0)


def running_since(epoch: int) -> Node:
    return Node(20, False, 0, running_since=epoch)


@pytest.mark.parametrize(
    ("node", "directory_since", "is_steady"),
    [
        (STEADY, None, True),
        (Node(SINCE + 1, False, 0), None, False),
        (STEADY, SINCE, True),
        (STEADY, SINCE + 1, False),
        (None, None, False),
    ],
)
def test_a_member_is_steady_with_its_process_and_its_directory(
    node: Node | None, directory_since: int | None, is_steady: bool
) -> None:
    directories = {} if directory_since is None else {0: directory_since}

    assert Nodes({} if node is None else {0: node}, directories).is_steady(MEMBER) is is_steady


def test_a_directory_that_was_never_replaced_is_older_than_every_member() -> None:
    assert Nodes({0: Node(0, False, 0)}, {}).is_steady(Member(0, 0))


@pytest.mark.parametrize(
    ("node", "is_same", "is_clean"),
    [
        (STEADY, True, False),
        (BACK, False, False),
        (running_since(1), True, True),
        (running_since(SINCE), True, True),
        (running_since(SINCE + 1), False, False),
        (Node(20, False, 0, stopped_at=SINCE), False, True),
        (Node(20, False, 0, stopped_at=SINCE - 1), False, False),
        (Node(20, False, SINCE, stopped_at=SINCE), False, True),
        (Node(20, False, SINCE + 1, stopped_at=SINCE + 1), False, False),
        (None, False, False),
    ],
)
def test_a_process_that_never_stopped_or_stopped_cleanly_is_known_by_its_registration(
    node: Node | None, is_same: bool, is_clean: bool
) -> None:
    nodes = Nodes({} if node is None else {0: node}, {})

    assert nodes.is_same_process(MEMBER) is is_same
    assert nodes.is_clean(MEMBER) is is_clean


def status(node: Node, replicas: int = 2, proof: Proof | None = None) -> MemberStatus:
    state = PartitionState(leader=0, leader_epoch=3, replicas=tuple(range(replicas)), in_sync=(MEMBER,))
    evidence = Evidence({} if proof is None else {0: proof})
    return MemberStatuses(state, Nodes({0: node}, {}), 0, evidence).of(MEMBER)


@pytest.mark.parametrize(("replicas", "found"), [(1, "BACK"), (2, "UNPROVEN"), (3, "UNPROVEN")])
def test_a_replica_that_is_back_proves_what_it_holds_unless_it_is_the_only_one(replicas: int, found: str) -> None:
    assert status(BACK, replicas) is MemberStatus[found]


def test_an_older_broker_cannot_prove_anything_and_is_trusted() -> None:
    assert status(Node(20, False, 0, proves_logs=False)) is MemberStatus.BACK


@pytest.mark.parametrize(("generation", "found"), [(SINCE, "BACK"), (SINCE + 1, "NEW")])
def test_a_log_that_was_created_after_its_replica_became_a_member_is_another_one(generation: int, found: str) -> None:
    assert status(BACK, proof=Proof(20, "", 3, generation, 3, 10)) is MemberStatus[found]
