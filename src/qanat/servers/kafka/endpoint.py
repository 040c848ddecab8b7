"""An endpoint of a Kafka listener: its name, its address, and the security of the clients that connect to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qanat.servers.listener_security import ListenerSecurity
    from qanat.servers.tls.listener_tls import ListenerTls


@dataclass(frozen=True, slots=True)
class KafkaEndpoint:
    """One address that is served, under its name in `listeners`."""

    name: str
    host: str
    port: int
    protocol: str = "PLAINTEXT"
    security: ListenerSecurity | None = None
    """Authentication and authorization; None where every client may do everything."""
    tls: ListenerTls | None = None
    bootstrap_port: int | None = None
    """A second port, which other brokers of this host serve as well: for the first connection of a client."""
    is_inter_broker: bool = False

    @property
    def is_authorized(self) -> bool:
        """Whether an authorizer decides about requests."""
        return self.security is not None and self.security.authorizer is not None
