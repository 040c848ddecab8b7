"""ACLs: rules that allow or deny operations on resources, and an index that finds the rule that decides.

Kafka's semantics (its StandardAuthorizer): a rule names a resource literally, by a prefix, or all of a kind (`*`); a
principal or all of them (`User:*`); an address or all (`*`); an operation or ALL. A matching DENY wins over every
ALLOW. An allowed READ, WRITE, DELETE or ALTER allows DESCRIBE as well, an allowed ALTER_CONFIGS DESCRIBE_CONFIGS. Where
no rule matches, the operation is denied, or allowed if no rule names the resource and the index says so.

A decision costs a few look-ups in dicts, however many rules there are: one for the name, one for `*`, and one per
length that a prefix has, each for the principal and for `User:*`.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple

from msgspec import Struct

from qanat.security.authorization import Operation, Resource, ResourceKind

ANY = "*"
"""As a literal name every resource of a kind; as a host every address."""
ANY_PRINCIPAL = "User:*"

_IMPLIED: dict[Operation, tuple[Operation, ...]] = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}
_ALLOWED_BY = {one: (one, Operation.ALL, *_IMPLIED.get(one, ())) for one in Operation}
"""The operations of ALLOW rules that allow an operation."""
_SAMPLE_NAME = "hardcode"
"""A name that stands for those without rules of their own; Kafka's."""


class PatternType(IntEnum):
    """How a rule names resources, with Kafka's numbers."""

    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    """What a rule does, with Kafka's numbers."""

    DENY = 2
    ALLOW = 3


class Acl(Struct, frozen=True):
    """One rule."""

    kind: ResourceKind
    name: str
    pattern: PatternType
    principal: str
    host: str
    operation: Operation
    permission: Permission

    def __str__(self) -> str:
        resource = f"{self.kind.name.lower()} {self.name!r}"
        if self.pattern is PatternType.PREFIXED:
            resource = f"{self.kind.name.lower()}s that begin with {self.name!r}"
        elif self.name == ANY:
            resource = f"every {self.kind.name.lower()}"
        where = "any host" if self.host == ANY else self.host
        return f"{self.permission.name} {self.principal} {self.operation.name} on {resource} from {where}"


class Decision(Struct, frozen=True):
    """An answer, and the rule that it rests on; no rule where none matches."""

    is_allowed: bool
    acl: Acl | None = None


class _Rule(NamedTuple):
    """A rule as the index keeps it: its host in the one spelling that addresses have here."""

    host: str
    operation: Operation
    acl: Acl


class _Patterns:
    """Values by the literal names and prefixes that they are for."""

    __slots__ = ("_lengths", "_literal", "_prefixed")

    def __init__(self) -> None:
        self._literal: dict[str, dict[Acl, _Rule]] = {}
        self._prefixed: dict[str, dict[Acl, _Rule]] = {}
        self._lengths: dict[int, int] = {}
        """How many different prefixes there are of each length."""

    def __iter__(self) -> Iterator[_Rule]:
        for rules in (*self._literal.values(), *self._prefixed.values()):
            yield from rules.values()

    def __bool__(self) -> bool:
        return bool(self._literal or self._prefixed)

    def add(self, rule: _Rule) -> None:
        acl = rule.acl
        if acl.pattern is PatternType.LITERAL:
            self._literal.setdefault(acl.name, {})[acl] = rule
            return
        if acl.name not in self._prefixed:
            self._lengths[len(acl.name)] = self._lengths.get(len(acl.name), 0) + 1
        self._prefixed.setdefault(acl.name, {})[acl] = rule

    def remove(self, acl: Acl) -> None:
        named = self._literal if acl.pattern is PatternType.LITERAL else self._prefixed
        rules = named[acl.name]
        del rules[acl]
        if rules:
            return
        del named[acl.name]
        if acl.pattern is PatternType.PREFIXED:
            self._lengths[len(acl.name)] -= 1
            if not self._lengths[len(acl.name)]:
                del self._lengths[len(acl.name)]

    def matching(self, name: str) -> Iterator[_Rule]:
        """The rules for a resource of this name."""
        literal = self._literal
        if (rules := literal.get(name)) is not None:
            yield from rules.values()
        if name != ANY and (rules := literal.get(ANY)) is not None:
            yield from rules.values()
        for length in self._lengths:
            if length <= len(name) and (rules := self._prefixed.get(name[:length])) is not None:
                yield from rules.values()


class AclIndex:
    """Rules by principal and kind of resource.

    With `is_open`, a resource that no rule names is open to every principal (`allow.everyone.if.no.acl.found`).
    """

    def __init__(self, *, is_open: bool = False) -> None:
        self._is_open = is_open
        self._by_principal: dict[tuple[str, ResourceKind], _Patterns] = {}
        self._by_kind: dict[ResourceKind, _Patterns] = {}
        """The same rules, of all principals: whether any rule names a resource."""

    def add(self, acl: Acl) -> None:
        """Add a rule; one that is there stays as it is."""
        rule = _Rule(normal_host(acl.host), acl.operation, acl)
        self._by_principal.setdefault((acl.principal, acl.kind), _Patterns()).add(rule)
        self._by_kind.setdefault(acl.kind, _Patterns()).add(rule)

    def remove(self, acl: Acl) -> None:
        """Remove a rule that is there."""
        place = acl.principal, acl.kind
        patterns = self._by_principal[place]
        patterns.remove(acl)
        if not patterns:
            del self._by_principal[place]
        self._by_kind[acl.kind].remove(acl)

    def decide(self, principal: str, host: str, operation: Operation, resource: Resource) -> Decision:
        """Whether a principal, connected from this address, may do this, and by which rule."""
        host, allowed_by, allowed = normal_host(host), _ALLOWED_BY[operation], None
        for rule in self._matching(principal, resource):
            if rule.host != ANY and rule.host != host:
                continue
            if rule.acl.permission is Permission.DENY:
                if rule.operation is operation or rule.operation is Operation.ALL:
                    return Decision(is_allowed=False, acl=rule.acl)
            elif allowed is None and rule.operation in allowed_by:
                allowed = rule.acl
        if allowed is not None:
            return Decision(is_allowed=True, acl=allowed)
        return Decision(self._is_open and not self._is_named(resource))

    def decide_any(self, principal: str, host: str, operation: Operation, kind: ResourceKind) -> bool:
        """Whether there is a name of this kind on which a principal may do this (KIP-679).

        An ALLOW counts unless a DENY covers all of its names: of its literal name, of a prefix of it, or of `*`.
        """
        if self.decide(principal, host, operation, Resource(kind, _SAMPLE_NAME)).is_allowed:
            return True
        host, allowed_by = normal_host(host), _ALLOWED_BY[operation]
        allowed: dict[tuple[PatternType, str], None] = {}
        denied: dict[tuple[PatternType, str], None] = {}
        for who in (principal, ANY_PRINCIPAL):
            for rule in self._by_principal.get((who, kind), ()):
                if rule.host != ANY and rule.host != host:
                    continue
                acl = rule.acl
                if acl.permission is Permission.ALLOW and rule.operation in allowed_by:
                    allowed[acl.pattern, acl.name] = None
                elif acl.permission is Permission.DENY and rule.operation in (operation, Operation.ALL):
                    denied[acl.pattern, acl.name] = None
        if (PatternType.LITERAL, ANY) in denied:
            return False
        return any(not _is_covered(pattern, name, denied) for pattern, name in allowed)

    def _matching(self, principal: str, resource: Resource) -> Iterator[_Rule]:
        for who in (principal, ANY_PRINCIPAL):
            if (patterns := self._by_principal.get((who, resource.kind))) is not None:
                yield from patterns.matching(resource.name)

    def _is_named(self, resource: Resource) -> bool:
        patterns = self._by_kind.get(resource.kind)
        return patterns is not None and next(patterns.matching(resource.name), None) is not None


def _is_covered(pattern: PatternType, name: str, denied: dict[tuple[PatternType, str], None]) -> bool:
    if pattern is PatternType.LITERAL and name == ANY:
        return False
    if pattern is PatternType.LITERAL and (pattern, name) in denied:
        return True
    return any((PatternType.PREFIXED, name[:length]) in denied for length in range(1, len(name) + 1))


def normal_host(text: str) -> str:
    """An address in its one spelling; anything else as it is. Rules and clients may spell an address differently.

    >>> normal_host("0:0:0:0:0:0:0:1"), normal_host("::ffff:10.0.0.7"), normal_host("fe80::1%eth0"), normal_host("*")
    ('::1', '10.0.0.7', 'fe80::1', '*')
    """
    if text == ANY:
        return text
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return text
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address)
