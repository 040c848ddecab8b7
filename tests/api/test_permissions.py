"""Answers of an authorizer are kept until its rules change, and no longer; super users are never asked about."""

from __future__ import annotations

from qanat.api import permissions
from qanat.api.permissions import Permissions, PermissionTable
from qanat.security.authentication import Principal
from qanat.security.authorization import Operation, Resource, ResourceKind

ALICE = Principal("alice")
TOPIC = ResourceKind.TOPIC


class Plain:
    """An authorizer without a revision."""

    def __init__(self) -> None:
        self.allowed = {"a"}
        self.asked: list[str] = []

    def allows(self, principal: Principal, host: str, operation: Operation, resource: Resource) -> bool:
        self.asked.append(resource.name)
        return resource.name in self.allowed


class Revised(Plain):
    """An authorizer with one."""

    def __init__(self) -> None:
        super().__init__()
        self.revision = 1

    def allows_any(self, principal: Principal, host: str, operation: Operation, kind: ResourceKind) -> bool:
        self.asked.append("any")
        return bool(self.allowed)


def test_an_answer_is_kept_until_the_revision_changes() -> None:
    authorizer = Revised()
    alice = Permissions(authorizer, ALICE, "h")

    assert [alice.allow(Operation.READ, TOPIC, name) for name in "aabb"] == [True, True, False, False]
    assert [alice.allow_any(Operation.READ, TOPIC) for _ in range(2)] == [True, True]
    assert authorizer.asked == ["a", "b", "any"]
    authorizer.allowed, authorizer.revision = set(), 2
    assert not alice.allow(Operation.READ, TOPIC, "a")
    assert not alice.allow_any(Operation.READ, TOPIC)


def test_the_last_answer_is_for_its_operation_kind_and_revision_only() -> None:
    authorizer = Revised()
    alice, name = Permissions(authorizer, ALICE, "h"), "a"
    assert alice.allow(Operation.READ, TOPIC, name)
    authorizer.allowed = set()

    assert not alice.allow(Operation.WRITE, TOPIC, name)
    assert not alice.allow(Operation.WRITE, TOPIC, name)
    assert not alice.allow(Operation.WRITE, ResourceKind.GROUP, name)
    assert alice.allow(Operation.READ, TOPIC, name), "kept as long as the revision stays"
    authorizer.revision = 2
    assert not alice.allow_any(Operation.WRITE, TOPIC)
    assert not alice.allow(Operation.READ, TOPIC, name)
    authorizer.allowed, authorizer.revision = {"a"}, 3
    assert alice.allow(Operation.READ, TOPIC, name)


def test_what_is_known_is_what_was_allowed_at_this_revision() -> None:
    authorizer = Revised()
    alice = Permissions(authorizer, ALICE, "h")
    for name in "ab":
        alice.allow(Operation.READ, TOPIC, name)
    alice.allow_any(Operation.READ, TOPIC)

    def knows(*names: str | None, operation: Operation = Operation.READ) -> bool:
        return alice.knows(operation, TOPIC, names)

    assert [knows(), knows("a"), knows("a", "a")] == [True] * 3
    assert [knows("b"), knows("a", "b"), knows("a", "c"), knows("a", operation=Operation.WRITE)] == [False] * 4
    assert [knows(None), knows("")] == [False] * 2, "no name stands for the question whether there is any"
    assert authorizer.asked == ["a", "b", "any"], "nothing is asked"
    authorizer.revision = 2
    assert not knows("a")


def test_nothing_is_known_of_an_authorizer_without_a_revision_and_everything_of_a_super_user() -> None:
    alice = Permissions(Plain(), ALICE, "h")
    assert alice.allow(Operation.READ, TOPIC, "a")

    assert not alice.knows(Operation.READ, TOPIC, ["a"])
    assert Permissions(Plain(), ALICE, "h", is_super=True).knows(Operation.READ, TOPIC, ["b", None])


def test_an_authorizer_without_a_revision_is_asked_every_time() -> None:
    authorizer = Plain()
    alice = Permissions(authorizer, ALICE, "h")
    assert alice.allow(Operation.READ, TOPIC, "a")
    authorizer.allowed = set()

    assert not alice.allow(Operation.READ, TOPIC, "a")
    assert alice.allow_any(Operation.READ, TOPIC) is None
    assert alice.revision == alice.revision


def test_a_super_user_is_not_asked_about() -> None:
    authorizer = Revised()
    table = PermissionTable(authorizer, ("User:alice",))

    assert table.of(ALICE, "h").allow(Operation.WRITE, TOPIC, "b")
    assert table.of(ALICE, "h").allow_any(Operation.WRITE, TOPIC)
    assert not table.of(Principal("bob"), "h").allow(Operation.WRITE, TOPIC, "b")
    assert authorizer.asked == ["b"]


def test_what_is_kept_is_bounded() -> None:
    authorizer = Revised()
    table = PermissionTable(authorizer, ())
    alice = table.of(ALICE, "h")
    for number in range(permissions._ANSWERS_MAX + 10):
        alice.allow(Operation.READ, TOPIC, str(number))
    for number in range(permissions._IDENTITIES_MAX + 10):
        table.of(Principal(str(number)), "h")

    assert all(len(answers) <= permissions._ANSWERS_MAX for answers in alice._answers if answers)
    assert len(table._known) <= permissions._IDENTITIES_MAX


def test_equal_principals_and_addresses_have_equal_permissions() -> None:
    authorizer = Revised()

    assert Permissions(authorizer, ALICE, "h") == Permissions(authorizer, ALICE, "h")
    assert Permissions(authorizer, ALICE, "h") != Permissions(authorizer, ALICE, "other")
    assert Permissions(authorizer, ALICE, "h") != Permissions(Revised(), ALICE, "h")
    assert hash(Permissions(authorizer, ALICE, "h")) == hash(Permissions(authorizer, ALICE, "h"))
