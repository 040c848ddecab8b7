"""Kinds of rules for the matrices of permissions: each grants exactly what a request needs, or does not.

What a request needs is recorded while all is allowed (`Recorder`). `scenarios` then makes the rules of each kind from
that, and says whether they are enough.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from qanat.broker.security.acl_entries import entry_of
from qanat.cluster.acls import key_of
from qanat.cluster.values import AclEntry
from qanat.security.acls import ANY, ANY_PRINCIPAL, Acl, PatternType, Permission
from qanat.security.authentication import Principal
from qanat.security.authorization import Operation, Resource, ResourceKind

Need = tuple[Operation, Resource]
Rules = Callable[[list[Need]], list[Acl]]
HERE, ELSEWHERE = "127.0.0.1", "10.9.9.9"
KINDS = (ResourceKind.TOPIC, ResourceKind.GROUP, ResourceKind.CLUSTER, ResourceKind.TRANSACTIONAL_ID)


class Recorder:
    """An authorizer that allows everything, and remembers what it was asked for."""

    def __init__(self) -> None:
        self.asked: dict[Need, None] = {}

    def allows(self, principal: Principal, host: str, operation: Operation, resource: Resource) -> bool:
        self.asked[operation, resource] = None
        return True


class Image:
    """The rules of a scenario, as the metadata image has them."""

    def __init__(self) -> None:
        self.acls: dict[str, AclEntry] = {}
        self.acls_version = 0
        self.unreadable: dict[str, str] = {}

    def set(self, acls: list[Acl]) -> None:
        self.acls = {key_of(entry_of(acl)): entry_of(acl) for acl in acls}
        self.acls_version += 1


def scenarios(caller: str) -> dict[str, tuple[Rules, bool]]:
    """The rules of each scenario by what a caller needs, and whether they are enough."""

    def each(**fields: Any) -> Rules:
        return lambda needs: [_literal(caller, need, **fields) for need in needs]

    def by_prefix(needs: list[Need]) -> list[Acl]:
        return [_literal(caller, need, name=need[1].name[:2], pattern=PatternType.PREFIXED) for need in needs]

    def longer(needs: list[Need]) -> list[Acl]:
        return [_literal(caller, need, name=need[1].name + "x") for need in needs]

    return {
        "none": (lambda needs: [], False),
        "allow": (each(), True),
        "prefix": (by_prefix, True),
        "wildcard": (each(name=ANY, principal=ANY_PRINCIPAL, host=ANY), True),
        "all operations": (lambda needs: _everything(Permission.ALLOW), True),
        "deny": (lambda needs: _everything(Permission.ALLOW) + _everything(Permission.DENY), False),
        "another principal": (each(principal="User:other"), False),
        "another host": (each(host=ELSEWHERE), False),
        "longer name": (longer, False),
    }


def _literal(caller: str, need: Need, **fields: Any) -> Acl:
    operation, resource = need
    acl = Acl(resource.kind, resource.name, PatternType.LITERAL, caller, HERE, operation, Permission.ALLOW)
    return msgspec.structs.replace(acl, **fields)


def _everything(permission: Permission) -> list[Acl]:
    return [Acl(kind, ANY, PatternType.LITERAL, ANY_PRINCIPAL, ANY, Operation.ALL, permission) for kind in KINDS]
