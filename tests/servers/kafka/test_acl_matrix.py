"""Every served API in every version, against every kind of rule: a new API without a row fails.

Which operations an API needs is recorded while all are allowed; each kind of rule then grants exactly these, or takes
them away, and the broker must answer accordingly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from tests.servers.kafka.authorization_rows import NEVER_REFUSED, ROWS
from tests.servers.kafka.raw import RawClient
from tests.servers.kafka.test_authorization import REQUESTS, TOPIC

from qanat.api.api_table import SERVED
from qanat.broker.security.acl_authorizer import AclAuthorizer
from qanat.broker.security.acl_entries import entry_of
from qanat.cluster.acls import key_of
from qanat.cluster.values import AclEntry
from qanat.model.error_codes import ErrorCode
from qanat.security.acls import ANY, ANY_PRINCIPAL, Acl, PatternType, Permission
from qanat.security.authentication import Principal
from qanat.security.authorization import Operation, Resource, ResourceKind
from qanat.servers.listener_security import ListenerSecurity
from qanat.testing import EmbeddedBroker
from qanat.wire.kafka.registry import ApiKey

Need = tuple[Operation, Resource]
CALLER, HERE, ELSEWHERE = "User:ANONYMOUS", "127.0.0.1", "10.9.9.9"
KINDS = (ResourceKind.TOPIC, ResourceKind.GROUP, ResourceKind.CLUSTER, ResourceKind.TRANSACTIONAL_ID)


class Recorder:
    """Allows everything, and remembers what it was asked for."""

    def __init__(self) -> None:
        self.asked: dict[Need, None] = {}

    def allows(self, principal: Principal, host: str, operation: Operation, resource: Resource) -> bool:
        self.asked[operation, resource] = None
        return True


class Image:
    """The rules of a scenario."""

    def __init__(self) -> None:
        self.acls: dict[str, AclEntry] = {}
        self.acls_version = 0
        self.unreadable: dict[str, str] = {}

    def set(self, acls: list[Acl]) -> None:
        self.acls = {key_of(entry_of(acl)): entry_of(acl) for acl in acls}
        self.acls_version += 1


def literal(need: Need, **fields: Any) -> Acl:
    operation, resource = need
    acl = Acl(resource.kind, resource.name, PatternType.LITERAL, CALLER, HERE, operation, Permission.ALLOW)
    return msgspec.structs.replace(acl, **fields)


def everything(permission: Permission) -> list[Acl]:
    return [Acl(kind, ANY, PatternType.LITERAL, ANY_PRINCIPAL, ANY, Operation.ALL, permission) for kind in KINDS]


SCENARIOS: dict[str, tuple[Callable[[list[Need]], list[Acl]], bool]] = {
    "none": (lambda needs: [], False),
    "allow": (lambda needs: [literal(need) for need in needs], True),
    "prefix": (
        lambda needs: [literal(need, name=need[1].name[:2], pattern=PatternType.PREFIXED) for need in needs],
        True,
    ),
    "wildcard": (lambda needs: [literal(need, name=ANY, principal=ANY_PRINCIPAL, host=ANY) for need in needs], True),
    "all operations": (lambda needs: everything(Permission.ALLOW), True),
    "deny": (lambda needs: everything(Permission.ALLOW) + everything(Permission.DENY), False),
    "another principal": (lambda needs: [literal(need, principal="User:other") for need in needs], False),
    "another host": (lambda needs: [literal(need, host=ELSEWHERE) for need in needs], False),
    "longer name": (lambda needs: [literal(need, name=need[1].name + "x") for need in needs], False),
}
"""The rules of each scenario by what is needed, and whether they are enough."""


def row(key: ApiKey, version: int) -> tuple[Any, ErrorCode]:
    if key in ROWS:
        make, expected = ROWS[key]
        return make(version), expected(version)
    made, code, _ = REQUESTS[key]
    return made(version), code


CELLS = [
    (key, version)
    for key in (*REQUESTS, *ROWS)
    for version in range(SERVED[key].first_version, SERVED[key].last_version + 1)
    if not (key in REQUESTS and version > REQUESTS[key][2])
    if not (key is ApiKey.DESCRIBE_LOG_DIRS and version < 3)
]


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


def codes(answer: Any) -> set[int]:
    """Every error code anywhere in an answer."""
    if isinstance(answer, msgspec.Struct):
        fields = {name: getattr(answer, name) for name in answer.__struct_fields__}
        own = {value for name, value in fields.items() if name.endswith("error_code")}
        return own.union(*map(codes, fields.values()))
    return set().union(*map(codes, answer)) if isinstance(answer, list) else set()


def answered(broker: EmbeddedBroker, security: ListenerSecurity, key: ApiKey, version: int) -> set[int]:
    if TOPIC not in broker.topics():
        broker.create_topic(TOPIC)
    broker.node.listener.dispatcher.interceptor = security.handle
    try:
        with RawClient(broker.bootstrap_servers) as client:
            return codes(client.ask(key, version, row(key, version)[0]))
    finally:
        broker.node.listener.dispatcher.interceptor = None


def test_every_served_api_has_a_row_or_a_reason() -> None:
    assert {*SERVED} == {*REQUESTS, *ROWS, *NEVER_REFUSED}


@pytest.mark.parametrize(("key", "version"), CELLS, ids=lambda value: getattr(value, "name", str(value)))
def test_an_api_is_answered_as_its_rules_say(broker: EmbeddedBroker, key: ApiKey, version: int) -> None:
    recorder, expected = Recorder(), row(key, version)[1]
    assert expected not in answered(broker, ListenerSecurity(authorizer=recorder), key, version)
    needs = list(recorder.asked)
    assert needs
    image = Image()
    security = ListenerSecurity(authorizer=AclAuthorizer(image))
    wrong = []
    for name, (rules, is_enough) in SCENARIOS.items():
        image.set(rules(needs))
        if (expected not in answered(broker, security, key, version)) is not is_enough:
            wrong.append(name)
    image.set([])
    superior = ListenerSecurity(authorizer=AclAuthorizer(image), super_users=(CALLER,))
    if expected in answered(broker, superior, key, version):
        wrong.append("super user")

    assert wrong == []
