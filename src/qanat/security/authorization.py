"""The port for authorizers, with Kafka's operations and resources.

`allows` is called for every resource that a request names, before the request is handled. It runs on the
event loop and must not wait: an authorizer that loads its rules from elsewhere does so in the background.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from qanat.security.authentication import Principal


class Operation(IntEnum):
    """Kafka's operations, with Kafka's numbers."""

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


class ResourceKind(IntEnum):
    """Kafka's kinds of resources, with Kafka's numbers."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


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
