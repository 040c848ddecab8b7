"""The caller of an HTTP request: its address and its principal (`authentication` finds it).

Where HTTP requires authentication by SASL, `Authorization` says who the caller is; without, its certificate
does. Handlers see a caller in place of a Kafka connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from qanat.api.records.refused_batches import RefusedBatches
from qanat.security.authentication import ANONYMOUS, Accepted, Principal

if TYPE_CHECKING:
    from qanat.api.caller import Denial
    from qanat.api.permissions import Permissions
    from qanat.servers.listener_security import ListenerSecurity

CLIENT_ID = "qanat-http"
"""The client id of HTTP, here and at other brokers; group members with it have HTTP's session timeout."""
PRINCIPAL = "principal"
"""The principal of a connection's certificate, in the state of its requests; none where it is anonymous."""


class SignedIn(Protocol):
    """What a caller needs of a browser's session."""

    @property
    def accepted(self) -> Accepted: ...

    @property
    def api_key(self) -> str: ...

    @property
    def is_valid(self) -> bool: ...


class HttpCaller:
    """The client of one request."""

    __slots__ = (
        "__weakref__",
        "api_key",
        "expires_at_s",
        "host",
        "is_authenticated",
        "is_closed_by_broker",
        "is_inter_broker",
        "is_over_inter_broker",
        "last_denial",
        "listener_name",
        "listener_protocol",
        "peer",
        "permissions",
        "principal",
        "refused_batches",
        "security",
        "session",
    )

    def __init__(
        self,
        address: tuple[str, int] | None,
        principal: Principal = ANONYMOUS,
        security: ListenerSecurity | None = None,
    ) -> None:
        """`security` is HTTP's where an authorizer decides."""
        self.host = address[0] if address else ""
        self.peer = f"{address[0]}:{address[1]}" if address else ""
        self.principal = principal
        self.session: SignedIn | None = None
        """The session that it is authenticated by, where it is a browser's."""
        self.is_authenticated = False
        """Whether `Authorization` proved the principal."""
        self.expires_at_s: float | None = None
        """When its token ends, in seconds since 1970; a stream ends with it."""
        self.api_key = ""
        """The id of its API key; empty where it authenticated in another way."""
        self.security = security
        self.refused_batches = RefusedBatches()
        self.permissions: Permissions | None = None
        self.last_denial: Denial | None = None
        self.listener_name = self.listener_protocol = ""
        self.is_inter_broker = self.is_over_inter_broker = False
        self.is_closed_by_broker = True
        """The end of a request is not the client's doing: it releases nothing that the client holds."""

    def authenticated(self, accepted: Accepted) -> None:
        self.principal, self.expires_at_s = accepted.principal, accepted.expires_at_s
        self.is_authenticated = True

    def authenticated_by(self, session: SignedIn) -> None:
        """Act as the user of a session."""
        self.authenticated(session.accepted)
        self.session, self.api_key = session, session.api_key

    def close(self) -> None:
        """Do nothing: every HTTP request is answered."""

    def cancel_on_disconnect(self, waiting: asyncio.Future[Any]) -> None:
        """Do nothing: the request awaits it, and is cancelled itself."""


def caller_of(scope: Mapping[str, Any], security: ListenerSecurity | None) -> HttpCaller:
    """The caller of a request, by its certificate where it has one."""
    return HttpCaller(scope["client"], scope["state"].get(PRINCIPAL, ANONYMOUS), security)
