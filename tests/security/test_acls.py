"""ACLs: the index decides as a plain reading of all rules does, and filters find the rules that they name."""

from __future__ import annotations

import time
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qanat.security.acl_filters import AclFilter, FilterPattern, InvalidAclError, acl_of, filter_of
from qanat.security.acls import ANY, ANY_PRINCIPAL, Acl, AclIndex, PatternType, Permission, normal_host
from qanat.security.authorization import CLUSTER, Operation, Resource, ResourceKind

HOSTS = ("10.0.0.1", "10.0.0.2", "0:0:0:0:0:0:0:1", ANY)
CLIENTS = ("10.0.0.1", "::ffff:10.0.0.2", "::1")
OPERATIONS = (Operation.READ, Operation.DESCRIBE, Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS, Operation.ALL)
KINDS = (ResourceKind.TOPIC, ResourceKind.GROUP)
NAMES = ("a", "b", "ab", "ba", "aa", ANY)
ALL_NAMES = ["*c", *("".join(letters) for size in (1, 2, 3) for letters in product("abc", repeat=size))]

acls = st.builds(
    Acl,
    st.sampled_from(KINDS),
    st.sampled_from(NAMES),
    st.sampled_from(PatternType),
    st.sampled_from(("User:alice", "User:bob", ANY_PRINCIPAL)),
    st.sampled_from(HOSTS),
    st.sampled_from(OPERATIONS),
    st.sampled_from(Permission),
)


def names(acl: Acl, resource: Resource) -> bool:
    if acl.kind is not resource.kind:
        return False
    if acl.pattern is PatternType.PREFIXED:
        return resource.name.startswith(acl.name)
    return acl.name in (resource.name, ANY)


def naive(rules: list[Acl], is_open: bool, who: str, host: str, operation: Operation, resource: Resource) -> bool:
    """Every rule read in full, in the words of Kafka's documentation."""
    implied = {
        Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
        Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
    }
    concerned = [
        acl
        for acl in rules
        if names(acl, resource) and acl.principal in (who, ANY_PRINCIPAL) and acl.host in (ANY, host)
    ]
    for acl in concerned:
        if acl.permission is Permission.DENY and acl.operation in (operation, Operation.ALL):
            return False
    for acl in concerned:
        enough = {operation, Operation.ALL} | implied.get(operation, set())
        if acl.permission is Permission.ALLOW and acl.operation in enough:
            return True
    return is_open and not any(names(acl, resource) for acl in rules)


def index_of(rules: list[Acl], *, is_open: bool = False) -> AclIndex:
    index = AclIndex(is_open=is_open)
    for acl in rules:
        index.add(acl)
    return index


@settings(max_examples=120, deadline=None)
@given(st.lists(acls, max_size=12), st.lists(acls, max_size=4), st.booleans())
def test_the_index_decides_as_a_plain_reading_of_all_rules(rules: list[Acl], gone: list[Acl], is_open: bool) -> None:
    index = index_of(rules + gone, is_open=is_open)
    for acl in dict.fromkeys(gone):
        if acl not in rules:
            index.remove(acl)
    hosts = {"10.0.0.1": "10.0.0.1", "::ffff:10.0.0.2": "10.0.0.2", "::1": "0:0:0:0:0:0:0:1"}
    for who, client, operation, kind in product(("User:alice", "User:carol"), CLIENTS, OPERATIONS[:-1], KINDS):
        for name in ("a", "ab", "abc", "b", "c"):
            resource = Resource(kind, name)
            decision = index.decide(who, client, operation, resource)
            expected = naive(rules, is_open, who, hosts[client], operation, resource)
            assert decision.is_allowed is expected, (who, client, operation, resource)
            if decision.acl is not None:
                assert decision.is_allowed is (decision.acl.permission is Permission.ALLOW)


@settings(max_examples=120, deadline=None)
@given(st.lists(acls, max_size=8), st.booleans())
def test_any_name_is_allowed_where_one_of_all_names_is(rules: list[Acl], is_open: bool) -> None:
    """Names have one letter more than rules know, so that a prefix always has a name that no literal rule names."""
    index = index_of(rules, is_open=is_open)
    for who, operation, kind in product(("User:alice", "User:carol"), OPERATIONS[:-1], KINDS):
        expected = any(naive(rules, is_open, who, "10.0.0.1", operation, Resource(kind, name)) for name in ALL_NAMES)
        assert index.decide_any(who, "10.0.0.1", operation, kind) is expected, (who, operation, kind)


def test_a_deny_wins_over_every_allow() -> None:
    allow = Acl(ResourceKind.TOPIC, "orders", PatternType.LITERAL, "User:a", ANY, Operation.ALL, Permission.ALLOW)
    deny = Acl(ResourceKind.TOPIC, "or", PatternType.PREFIXED, ANY_PRINCIPAL, ANY, Operation.WRITE, Permission.DENY)
    index = index_of([allow, deny])
    orders = Resource(ResourceKind.TOPIC, "orders")

    assert index.decide("User:a", "h", Operation.WRITE, orders).acl == deny
    assert index.decide("User:a", "h", Operation.READ, orders).acl == allow
    assert index.decide("User:a", "h", Operation.DESCRIBE, orders).is_allowed
    assert index.decide("User:b", "h", Operation.READ, orders).acl is None


def test_ten_thousand_rules_cost_about_as_much_as_ten() -> None:
    def duration_s(count: int) -> float:
        index = AclIndex()
        for number in range(count):
            kind, pattern = ResourceKind.TOPIC, PatternType(3 + number % 2)
            who = f"User:user-{number % 50}"
            index.add(Acl(kind, f"topic-{number:05}", pattern, who, ANY, Operation.WRITE, Permission.ALLOW))
        best = 1.0
        for _ in range(5):
            began = time.thread_time()
            for number in range(500):
                index.decide("User:user-7", "10.0.0.1", Operation.WRITE, Resource(kind, f"topic-{number:05}"))
            best = min(best, time.thread_time() - began)
        return best

    # A search of all rules would take a thousand times as long.
    assert duration_s(10_000) < 50 * duration_s(10)


def test_rules_and_clients_may_spell_an_address_differently() -> None:
    assert normal_host("0:0:0:0:0:0:0:1") == normal_host("::1")
    assert normal_host("::ffff:10.0.0.7") == "10.0.0.7"
    assert normal_host("not an address") == "not an address"


def rule(name: str, pattern: PatternType = PatternType.LITERAL) -> Acl:
    return Acl(ResourceKind.TOPIC, name, pattern, "User:a", ANY, Operation.READ, Permission.ALLOW)


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        (FilterPattern.ANY, None, ["orders", "or", "orders", "*"]),
        (FilterPattern.ANY, "orders", ["orders", "orders"]),
        (FilterPattern.LITERAL, "orders", ["orders"]),
        (FilterPattern.LITERAL, "*", ["*"]),
        (FilterPattern.PREFIXED, None, ["or", "orders"]),
        (FilterPattern.MATCH, "orders", ["orders", "or", "orders", "*"]),
        (FilterPattern.MATCH, "order", ["or", "*"]),
        (FilterPattern.MATCH, None, ["orders", "or", "orders", "*"]),
    ],
)
def test_a_filter_names_resources_as_kafkas_does(pattern: FilterPattern, name: str | None, expected: list[str]) -> None:
    prefixed = PatternType.PREFIXED
    rules = [rule("orders"), rule("or", prefixed), rule("orders", prefixed), rule("*")]

    assert [acl.name for acl in rules if AclFilter(name=name, pattern=pattern).matches(acl)] == expected


def test_a_filter_leaves_open_what_it_does_not_say() -> None:
    acl = rule("orders")

    assert filter_of(1, None, 1, None, None, 1, 1).matches(acl)
    assert filter_of(2, "orders", 3, "User:a", "*", 3, 3).matches(acl)
    for other in (
        (3, "orders", 3, "User:a", "*", 3, 3),
        (2, "orders", 3, "User:b", "*", 3, 3),
        (2, "orders", 3, "User:a", "10.0.0.1", 3, 3),
        (2, "orders", 3, "User:a", "*", 4, 3),
        (2, "orders", 3, "User:a", "*", 3, 2),
    ):
        assert not filter_of(*other).matches(acl)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((1, "t", 3, "User:a", "*", 3, 3), "Invalid resource type 1"),
        ((2, "t", 2, "User:a", "*", 3, 3), "Invalid pattern type 2"),
        ((2, "t", 3, "User:a", "*", 1, 3), "Invalid operation 1"),
        ((2, "t", 3, "User:a", "*", 99, 3), "Invalid operation 99"),
        ((2, "t", 3, "User:a", "*", 3, 0), "Invalid permission type 0"),
        ((2, "", 3, "User:a", "*", 3, 3), "empty resource name"),
        ((4, "*", 3, "User:a", "*", 3, 3), "kafka-cluster"),
        ((2, "t", 3, "alice", "*", 3, 3), "should read User:name"),
        ((2, "t", 3, "User:", "*", 3, 3), "should read User:name"),
        ((2, "t", 3, "User:a", "", 3, 3), "host is empty"),
    ],
)
def test_a_rule_that_cannot_be_is_refused(given: tuple[int, str, int, str, str, int, int], message: str) -> None:
    with pytest.raises(InvalidAclError, match=message):
        acl_of(*given)


def test_a_rule_reads_as_a_sentence() -> None:
    assert str(rule("orders")) == "ALLOW User:a READ on topic 'orders' from any host"
    assert str(rule("or", PatternType.PREFIXED)) == "ALLOW User:a READ on topics that begin with 'or' from any host"
    assert acl_of(4, CLUSTER.name, 3, "User:a", "::1", 2, 2).permission is Permission.DENY
