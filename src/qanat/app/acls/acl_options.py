"""Principals, hosts, operations and resources of rules, as users write them, and rules as commands."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from shlex import quote
from typing import Annotated

from cyclopts import Parameter

from qanat.app.client.arguments import WrongArgumentError
from qanat.model.spelling import did_you_mean
from qanat.security.acls import ANY, Acl, PatternType, Permission
from qanat.security.authorization import CLUSTER, Operation, Resource, ResourceKind

Names = Annotated[list[str] | None, Parameter(negative="")]
Flag = Annotated[bool, Parameter(negative="")]


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class AclResources:
    """The resources that rules are about."""

    topic: Names = None
    """A topic, as often as needed; '*' for all."""
    group: Names = None
    """A consumer group or share group; '*' for all."""
    transactional_id: Names = None
    """A transactional id; '*' for all."""
    cluster: Flag = False
    """The cluster itself."""
    prefixed: Flag = False
    """The names are prefixes: all resources whose names begin with them."""

    @property
    def named(self) -> list[Resource]:
        """The resources, by kind and name."""
        kinds = (
            (ResourceKind.TOPIC, self.topic),
            (ResourceKind.GROUP, self.group),
            (ResourceKind.TRANSACTIONAL_ID, self.transactional_id),
        )
        found = [Resource(kind, name) for kind, names in kinds for name in names or ()]
        return [*found, CLUSTER] if self.cluster else found

    @property
    def pattern(self) -> PatternType:
        return PatternType.PREFIXED if self.prefixed else PatternType.LITERAL

    def required(self) -> list[Resource]:
        """The same; raises where there is none."""
        if not self.named:
            raise WrongArgumentError("name a resource: --topic, --group, --transactional-id or --cluster")
        return self.named


def principal_of(text: str) -> str:
    """
    >>> principal_of("alice"), principal_of("User:alice"), principal_of("*")
    ('User:alice', 'User:alice', 'User:*')
    """
    kind, separator, name = text.partition(":")
    if not text or (separator and not (kind and name)):
        raise WrongArgumentError(f"--principal {text!r} should read User:name, or just the name")
    return text if separator else f"User:{text}"


def operation_of(text: str) -> Operation:
    """
    >>> operation_of("alter-configs").name
    'ALTER_CONFIGS'
    """
    found = Operation.__members__.get(text.upper().replace("-", "_"))
    if found is None:
        names = [one.name.lower() for one in Operation]
        raise WrongArgumentError(
            f"--operation {text} is none{did_you_mean(text.lower(), names, 'there are ' + ', '.join(names))}"
        )
    return found


def operations_of(texts: list[str]) -> list[Operation]:
    """Operations, each option with one or several, separated by commas."""
    return [operation_of(one.strip()) for text in texts for one in text.split(",")]


def host_of(text: str) -> str:
    """An address, or `*`. A name is refused: brokers compare addresses."""
    if text == ANY:
        return text
    try:
        ipaddress.ip_address(text)
    except ValueError:
        raise WrongArgumentError(
            f"--host {text} is no address: brokers compare the addresses of clients, not their names"
        ) from None
    return text


def command_of(verb: str, acl: Acl) -> str:
    """The command that adds or removes a rule."""
    option = acl.kind.name.lower().replace("_", "-")
    words = ["qanat", "acl", verb, "--principal", acl.principal, "--operation", acl.operation.name.lower()]
    words += [f"--{option}"] if acl.kind is ResourceKind.CLUSTER else [f"--{option}", acl.name]
    if acl.pattern is PatternType.PREFIXED:
        words.append("--prefixed")
    if acl.host != ANY:
        words += ["--host", acl.host]
    if acl.permission is Permission.DENY:
        words.append("--deny")
    return " ".join(map(quote, words))
