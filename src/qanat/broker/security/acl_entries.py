"""ACLs of the metadata store (`cluster.values.AclEntry`) as rules, and back."""

from __future__ import annotations

from qanat.cluster.values import AclEntry
from qanat.security.acls import Acl, PatternType, Permission
from qanat.security.authorization import Operation, ResourceKind


class UnknownRuleError(ValueError):
    """A rule whose effect this version does not know: it may deny what others allow."""


def entry_of(acl: Acl) -> AclEntry:
    return AclEntry(
        resource_type=acl.kind.name,
        name=acl.name,
        pattern_type=acl.pattern.name,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation.name,
        permission=acl.permission.name,
    )


def rule_of(entry: AclEntry) -> Acl | None:
    """The rule; None where it is about a kind of resource or an operation that this version never asks for.

    Raises `UnknownRuleError` where its pattern or permission is unknown.
    """
    kind = ResourceKind.__members__.get(entry.resource_type)
    operation = Operation.__members__.get(entry.operation)
    pattern = PatternType.__members__.get(entry.pattern_type)
    permission = Permission.__members__.get(entry.permission)
    if pattern is None or permission is None:
        raise UnknownRuleError(f"an ACL has the unknown pattern {entry.pattern_type} or permission {entry.permission}")
    if kind is None or operation is None:
        return None
    return Acl(kind, entry.name, pattern, entry.principal, entry.host, operation, permission)
