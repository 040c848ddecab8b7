"""What a dry run records, and the rules that are made of it."""

from __future__ import annotations

import pytest

from qanat.security.acls import Acl
from qanat.security.authorization import CLUSTER, Operation, ResourceKind
from qanat.security.dry_run import DryRun, RecordedDenial, is_enforced, suggested

TOPIC, GROUP = ResourceKind.TOPIC, ResourceKind.GROUP


def denial(
    operation: Operation, name: str = "orders", kind: ResourceKind = TOPIC, who: str = "alice"
) -> RecordedDenial:
    return RecordedDenial(f"User:{who}", operation, kind, name)


def in_short(acls: list[Acl]) -> list[tuple[str, str, str]]:
    return [(acl.principal, acl.operation.name, acl.name) for acl in acls]


def test_each_denial_is_kept_once_with_its_count_and_a_full_table_only_counts() -> None:
    dry_run = DryRun(denials_max=2)
    for name in ("a", "b", "a", "c", "c"):
        dry_run.record(denial(Operation.READ, name))

    assert {one.name: count for one, count in dry_run.counts.items()} == {"a": 2, "b": 1}
    assert (dry_run.total, dry_run.dropped) == (5, 2)


def test_a_rule_that_another_implies_is_not_suggested() -> None:
    denials = [denial(Operation.DESCRIBE), denial(Operation.WRITE), denial(Operation.READ, who="bob")]

    assert in_short(suggested(denials, with_descriptions=True)) == [
        ("User:alice", "WRITE", "orders"),
        ("User:bob", "READ", "orders"),
    ]
    configs = [denial(Operation.DESCRIBE_CONFIGS), denial(Operation.ALTER_CONFIGS)]
    assert in_short(suggested(configs)) == [("User:alice", "ALTER_CONFIGS", "orders")]


def test_descriptions_of_topics_and_groups_are_suggested_only_on_request() -> None:
    denials = [
        denial(Operation.DESCRIBE),
        denial(Operation.DESCRIBE, kind=GROUP),
        denial(Operation.DESCRIBE, CLUSTER.name, ResourceKind.CLUSTER),
    ]

    assert in_short(suggested(denials)) == [("User:alice", "DESCRIBE", CLUSTER.name)]
    assert len(suggested(denials, with_descriptions=True)) == 3


@pytest.mark.parametrize(
    ("operation", "kind", "expected"),
    [
        (Operation.CLUSTER_ACTION, ResourceKind.CLUSTER, True),
        (Operation.ALTER, ResourceKind.CLUSTER, True),
        (Operation.ALTER, TOPIC, False),
        (Operation.CREATE, ResourceKind.CLUSTER, True),
        (Operation.IDEMPOTENT_WRITE, ResourceKind.CLUSTER, True),
        (Operation.CREATE, TOPIC, False),
        (Operation.READ, GROUP, False),
    ],
)
def test_what_gives_rights_that_stay_or_has_a_narrower_rule_is_enforced(
    operation: Operation, kind: ResourceKind, expected: bool
) -> None:
    assert is_enforced(operation, kind) is expected
