"""Filters of ACLs, as clients describe and delete them, and the checks of rules before they are kept.

A filter leaves open what is None. Its pattern is a rule's own (LITERAL, PREFIXED), either (ANY), or MATCH: every rule
that concerns a resource of the filter's name. The numbers are Kafka's.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TypeVar

from msgspec import Struct

from qanat.security.acls import ANY, Acl, PatternType, Permission
from qanat.security.authorization import CLUSTER, Operation, ResourceKind

_Member = TypeVar("_Member", bound=IntEnum)
_ANY_NUMBER = 1
_KINDS = {int(one): one for one in ResourceKind}
_OPERATIONS = {int(one): one for one in Operation}
_PATTERNS = {int(one): one for one in PatternType}
_PERMISSIONS = {int(one): one for one in Permission}


class FilterPattern(IntEnum):
    """How a filter names resources, with Kafka's numbers."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


_FILTER_PATTERNS = {int(one): one for one in FilterPattern}


class InvalidAclError(ValueError):
    """A rule or filter that cannot be; the sentence says why."""


class AclFilter(Struct, frozen=True):
    """Which rules are meant; None leaves open."""

    kind: ResourceKind | None = None
    name: str | None = None
    pattern: FilterPattern = FilterPattern.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation | None = None
    permission: Permission | None = None

    def matches(self, acl: Acl) -> bool:
        return (
            self.kind in (None, acl.kind)
            and self._names(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (None, acl.operation)
            and self.permission in (None, acl.permission)
        )

    def _names(self, acl: Acl) -> bool:
        is_literal = acl.pattern is PatternType.LITERAL
        match self.pattern:
            case FilterPattern.LITERAL | FilterPattern.PREFIXED:
                return int(self.pattern) == int(acl.pattern) and self.name in (None, acl.name)
            case FilterPattern.ANY:
                return self.name in (None, acl.name)
            case FilterPattern.MATCH:
                if self.name is None:
                    return True
                return acl.name in (self.name, ANY) if is_literal else self.name.startswith(acl.name)


def filter_of(
    kind: int, name: str | None, pattern: int, principal: str | None, host: str | None, operation: int, permission: int
) -> AclFilter:
    """The filter of a request; raises `InvalidAclError` for a number that stands for nothing."""
    return AclFilter(
        None if kind == _ANY_NUMBER else _known("resource type", kind, _KINDS),
        name,
        _known("pattern type", pattern, _FILTER_PATTERNS),
        principal,
        host,
        None if operation == _ANY_NUMBER else _known("operation", operation, _OPERATIONS),
        None if permission == _ANY_NUMBER else _known("permission type", permission, _PERMISSIONS),
    )


def acl_of(kind: int, name: str, pattern: int, principal: str, host: str, operation: int, permission: int) -> Acl:
    """The rule of a request; raises `InvalidAclError`."""
    acl = Acl(
        _known("resource type", kind, _KINDS),
        name,
        _known("pattern type", pattern, _PATTERNS),
        principal,
        host,
        _known("operation", operation, _OPERATIONS),
        _known("permission type", permission, _PERMISSIONS),
    )
    if not name:
        raise InvalidAclError("Invalid empty resource name")
    if acl.kind is ResourceKind.CLUSTER and name != CLUSTER.name:
        raise InvalidAclError(f"The only valid name for the CLUSTER resource is {CLUSTER.name}")
    principal_type, separator, principal_name = principal.partition(":")
    if not separator or not principal_type or not principal_name:
        raise InvalidAclError(f"the principal {principal!r} should read User:name")
    if not host:
        raise InvalidAclError("the host is empty: write an address, or * for all")
    return acl


def _known(what: str, number: int, members: dict[int, _Member]) -> _Member:
    found = members.get(number)
    if found is None:
        raise InvalidAclError(f"Invalid {what} {number}")
    return found
