"""The users of a secured broker, and the rules that each has.

A user without a name of its own in `RULES` has none. All rules are the same for every conversation but for the names:
`NAME-t…` are topics that may be used, as groups `NAME-g…` and transactional ids `NAME-x…` are.
"""

from __future__ import annotations

from qanat.security.acls import ANY, Acl, PatternType, Permission
from qanat.security.authorization import CLUSTER, Operation, ResourceKind

PASSWORD = "secret"
ROOT = "root"
"""The super user."""
KINDS = {ResourceKind.TOPIC: "t", ResourceKind.GROUP: "g", ResourceKind.TRANSACTIONAL_ID: "x"}
"""Kinds of named resources, and how the names of those begin that may be used."""
OPERATIONS = [one for one in Operation if one not in (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS)][1:]
"""Each is the one operation of a user that has its name."""
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED


def rules_of(user: str, name: str) -> list[Acl]:
    """The rules of a user in a conversation of that name."""
    made = {
        "literal": [
            *(_rule(user, kind, f"{name}-{mark}-{which}") for kind, mark in KINDS.items() for which in ("1", "none"))
        ],
        "prefix": [_rule(user, kind, f"{name}-{mark}-", PREFIXED) for kind, mark in KINDS.items()],
        "wildcard": _everything(user),
        "denied": [
            *_everything(user),
            *(_rule(user, kind, f"{name}-", PREFIXED, permission=Permission.DENY) for kind in KINDS),
            _rule(user, ResourceKind.CLUSTER, CLUSTER.name, permission=Permission.DENY),
        ],
        "cluster": [_rule(user, ResourceKind.CLUSTER, CLUSTER.name)],
        "no-topics": _everything(user, ResourceKind.TOPIC),
        "no-groups": _everything(user, ResourceKind.GROUP),
        "no-transactions": _everything(user, ResourceKind.TRANSACTIONAL_ID),
    }
    for operation in OPERATIONS:
        made[operation.name.lower()] = _everything(user, operation=operation)
    return made.get(user, [])


def _rule(
    user: str,
    kind: ResourceKind,
    name: str,
    pattern: PatternType = LITERAL,
    operation: Operation = Operation.ALL,
    permission: Permission = Permission.ALLOW,
) -> Acl:
    return Acl(kind, name, pattern, f"User:{user}", ANY, operation, permission)


def _everything(user: str, but: ResourceKind | None = None, operation: Operation = Operation.ALL) -> list[Acl]:
    """One operation on everything of every kind, but for one kind."""
    named = [_rule(user, kind, ANY, operation=operation) for kind in KINDS if kind is not but]
    return [*named, _rule(user, ResourceKind.CLUSTER, CLUSTER.name, operation=operation)]


GRANTS = (
    "none",
    "literal",
    "prefix",
    "wildcard",
    "denied",
    ROOT,
    "cluster",
    "no-topics",
    "no-groups",
    "no-transactions",
)
USERS = (*GRANTS, *(operation.name.lower() for operation in OPERATIONS))
