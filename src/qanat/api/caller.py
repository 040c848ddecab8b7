"""The caller of a request, as handlers see it: a Kafka connection or an HTTP request."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from qanat.api.records.refused_batches import RefusedBatches
from qanat.security.authentication import Principal

if TYPE_CHECKING:
    from qanat.api.permissions import Permissions
    from qanat.security.authorization import Operation, ResourceKind

    Denial = tuple[Operation, ResourceKind, str]
    """An operation on a resource of a kind and name."""


class CallerSecurity(Protocol):
    """The authorizer of a listener, before the handlers (`servers.listener_security`)."""

    def handle(self, served: Any, request: Any, context: Any) -> Any:
        """Handle a request as far as its caller is allowed to make it."""


class Caller(Protocol):
    """What a handler may know of a client, and do to it."""

    principal: Principal
    refused_batches: RefusedBatches
    permissions: Permissions | None
    """What its principal may do; None where no authorizer decides, or before the first request."""
    last_denial: Denial | None
    """What the authorizer denied last, for a message to the client."""

    def __hash__(self) -> int:
        """Callers differ by identity."""

    @property
    def host(self) -> str:
        """The client's address, without its port."""

    @property
    def peer(self) -> str:
        """The client's address with its port."""

    @property
    def security(self) -> CallerSecurity | None:
        """What decides about its requests; None where every client of its listener may do everything."""

    @property
    def listener_name(self) -> str:
        """The name of the listener that the request came over; empty where it is not Kafka's."""

    @property
    def listener_protocol(self) -> str:
        """The security protocol of that listener."""

    @property
    def is_over_inter_broker(self) -> bool:
        """Whether the request came over the inter-broker listener."""

    is_inter_broker: bool
    """Whether a broker sent the request: it came over that listener, from a principal that may act as a broker."""

    @property
    def is_closed_by_broker(self) -> bool:
        """Whether the broker closed the connection, and not the client."""

    def close(self) -> None:
        """Close the connection: the only way to refuse a request without a response."""

    def cancel_on_disconnect(self, waiting: asyncio.Future[Any]) -> None:
        """Cancel `waiting` when the client disconnects."""


@runtime_checkable
class SoftwareNote(Protocol):
    """A caller that remembers the name and version of its software, which ApiVersions says once."""

    client_software: tuple[str, str]


def software_of(caller: Caller) -> tuple[str, str]:
    """Name and version of a client's software; empty where it has not said them."""
    return caller.client_software if isinstance(caller, SoftwareNote) else ("", "")
