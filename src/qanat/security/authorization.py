"""The port for authorizers, with Kafka's operations and resources.

`allows` is called for every resource that a request names, before the request is handled. It runs on the
event loop and must not wait: an authorizer that loads its rules from elsewhere does so in the background.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol, runtime_checkable

from qanat.security.authentication import Principal


class Operation(IntEnum):
    """Kafka's operations, with Kafka's numbers."""

    ALL = 2
    """In rules only: no request asks for it."""
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class ResourceKind(IntEnum):
    """Kafka's kinds of resources, with Kafka's numbers."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource by its name."""

    kind: ResourceKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind.name.lower()} {self.name!r}"


CLUSTER = Resource(ResourceKind.CLUSTER, "kafka-cluster")
"""The one cluster, under the name that Kafka's tools use."""


class Authorizer(Protocol):
    """Decides what principals may do."""

    def allows(self, principal: Principal, host: str, operation: Operation, resource: Resource) -> bool:
        """Whether `principal`, connected from `host`, may do this. Permission to read, write, delete or alter a
        resource implies permission to describe it: the authorizer applies that rule."""


@runtime_checkable
class RevisedAuthorizer(Authorizer, Protocol):
    """An authorizer whose answers stay the same as long as its revision does: callers may keep them until then."""

    @property
    def revision(self) -> int:
        """Raised by every change of the rules."""

    def allows_any(self, principal: Principal, host: str, operation: Operation, kind: ResourceKind) -> bool:
        """Whether there is a name of this kind, existing or not, on which `principal` may do this."""
