"""The built-in authorizer follows the metadata image, and denies where it cannot know."""

from __future__ import annotations

import msgspec
import pytest

from qanat.broker.security.acl_authorizer import AclAuthorizer
from qanat.broker.security.acl_entries import UnknownRuleError, entry_of, rule_of
from qanat.cluster import keys, values
from qanat.cluster.acls import decide_create, decide_delete, key_of
from qanat.cluster.image import MetadataImage
from qanat.cluster.store import Delete, Entry, Event, EventKind, Put, Revision, Snapshot
from qanat.security.acls import ANY, Acl, PatternType, Permission
from qanat.security.authentication import Principal
from qanat.security.authorization import Operation, Resource, ResourceKind, RevisedAuthorizer

ALICE = Principal("alice")
ORDERS = Resource(ResourceKind.TOPIC, "orders")
ALLOW = Acl(ResourceKind.TOPIC, "orders", PatternType.LITERAL, "User:alice", ANY, Operation.READ, Permission.ALLOW)
DENY = Acl(ResourceKind.TOPIC, "or", PatternType.PREFIXED, "User:*", ANY, Operation.READ, Permission.DENY)


class Cluster:
    """An image, and the events that change it."""

    def __init__(self) -> None:
        self.image = MetadataImage()
        self.authorizer = AclAuthorizer(self.image)
        self._revision = 1

    def put(self, key: str, value: bytes) -> None:
        self._apply(EventKind.PUT, key, value)

    def delete(self, key: str) -> None:
        self._apply(EventKind.DELETE, key, b"")

    def add(self, *acls: Acl) -> None:
        for operation in decide_create(self.image, [entry_of(acl) for acl in acls]).operations:
            assert isinstance(operation, Put)
            self.put(operation.key, operation.value)

    def remove(self, *acls: Acl) -> None:
        for operation in decide_delete(self.image, [key_of(entry_of(acl)) for acl in acls]).operations:
            assert isinstance(operation, Delete)
            self.delete(operation.key)

    def allows(self) -> bool:
        return self.authorizer.allows(ALICE, "10.0.0.1", Operation.READ, ORDERS)

    def _apply(self, kind: EventKind, key: str, value: bytes) -> None:
        self._revision += 1
        self.image.apply(Event(kind, key, value, Revision(self._revision), Revision(self._revision)))


def test_a_rule_is_in_force_with_the_event_that_brings_it() -> None:
    cluster = Cluster()
    revisions = [cluster.authorizer.revision]
    steps = []
    for change, acl in ((cluster.add, ALLOW), (cluster.add, DENY), (cluster.remove, DENY)):
        change(acl)
        steps.append(cluster.allows())
        revisions.append(cluster.authorizer.revision)

    assert steps == [True, False, True]
    assert revisions == sorted(set(revisions))
    assert isinstance(cluster.authorizer, RevisedAuthorizer)
    assert [acl for _, acl in cluster.authorizer.rules()] == [ALLOW]


def test_a_rule_that_is_there_is_written_and_not_reported_again() -> None:
    cluster = Cluster()
    cluster.add(ALLOW)

    plan = decide_create(cluster.image, [entry_of(ALLOW)])
    assert [operation.key for operation in plan.operations if isinstance(operation, Put)] == [key_of(entry_of(ALLOW))]
    assert plan.created == ()
    assert decide_delete(cluster.image, [key_of(entry_of(DENY))]).operations == ()


def test_rules_that_a_watch_missed_are_repaired_by_a_snapshot() -> None:
    cluster = Cluster()
    cluster.add(ALLOW)
    assert cluster.allows()
    deny = entry_of(DENY)
    missed = Entry(key_of(deny), values.encode(deny), Revision(50), Revision(50))
    cluster.image.catch_up(Snapshot((missed,), Revision(60)))

    assert not cluster.allows()
    assert [acl for _, acl in cluster.authorizer.rules()] == [DENY]


def entry(**fields: str) -> values.AclEntry:
    return msgspec.structs.replace(entry_of(ALLOW), **fields)


@pytest.mark.parametrize(
    "value",
    [
        b"not json",
        b"{}",
        values.encode(entry(permission="ASK")),
        values.encode(entry(pattern_type="REGEX")),
    ],
    ids=["not-json", "no-fields", "unknown-permission", "unknown-pattern"],
)
def test_a_rule_that_cannot_be_understood_denies_everything(value: bytes) -> None:
    cluster = Cluster()
    cluster.add(ALLOW)
    cluster.put(keys.acl("x"), value)
    assert not cluster.allows()
    assert not cluster.authorizer.allows_any(ALICE, "h", Operation.READ, ResourceKind.TOPIC)
    cluster.delete(keys.acl("x"))
    assert cluster.allows()


def test_a_rule_about_an_operation_of_a_later_version_is_left_alone() -> None:
    cluster = Cluster()
    cluster.add(ALLOW)
    later = entry(name="*", principal="User:*", operation="TELEPORT", permission="DENY")
    cluster.put(key_of(later), values.encode(later))

    assert rule_of(later) is None
    assert cluster.allows()


def test_a_value_that_was_replaced_under_its_key_counts() -> None:
    cluster = Cluster()
    cluster.add(ALLOW)
    assert cluster.allows()
    cluster.put(key_of(entry_of(ALLOW)), values.encode(entry_of(DENY)))

    assert not cluster.allows()


@pytest.mark.parametrize("acl", [ALLOW, DENY])
def test_a_rule_is_read_from_the_store_as_it_was_written(acl: Acl) -> None:
    assert rule_of(values.decode(values.AclEntry, values.encode(entry_of(acl)))) == acl


def test_an_unknown_permission_raises() -> None:
    with pytest.raises(UnknownRuleError, match="MAYBE"):
        rule_of(entry(permission="MAYBE"))
