"""The port for whoever decides what a principal may do, with Kafka's words for what can be done to what.

`allows` is asked for every resource that a request names, before anything is done. It is asked on the
event loop and must not wait: an authoriser that learns its rules from elsewhere does so on its own time.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from qanat.security.authentication import Principal


class Operation(IntEnum):
    """What can be done; the numbers are Kafka's."""

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
    """What it can be done to; the numbers are Kafka's."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


@dataclass(frozen=True, slots=True)
class Resource:
    """One thing by its name."""

    kind: ResourceKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind.name.lower()} {self.name!r}"


CLUSTER = Resource(ResourceKind.CLUSTER, "kafka-cluster")
"""The one cluster, under the name that Kafka's tools give it."""


class Authorizer(Protocol):
    """Decides."""

    def allows(self, principal: Principal, host: str, operation: Operation, resource: Resource) -> bool:
        """Whether `principal`, connected from `host`, may do this. Who may read or write, delete or alter something
        may also describe it: that is for the authoriser to know."""
