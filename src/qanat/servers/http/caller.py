"""The caller of an HTTP request: its address and its principal.

Where HTTP requires authentication by SASL, it requires `Authorization: Basic` and uses the mechanism PLAIN; without, a
client's certificate is its principal. Handlers see a caller in place of a Kafka connection.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Mapping
from typing import Any

from qanat.api.records.refused_batches import RefusedBatches
from qanat.security.authentication import ANONYMOUS, Accepted, Authenticator, Principal
from qanat.servers.http.problems import Problem

CLIENT_ID = "qanat-http"
"""The client id of HTTP, here and at other brokers; group members with it have HTTP's session timeout."""
PRINCIPAL = "principal"
"""The principal of a connection's certificate, in the state of its requests; none where it is anonymous."""
_CHALLENGE = ((b"www-authenticate", b'Basic realm="qanat", charset="UTF-8"'),)


class HttpCaller:
    """The client of one request."""

    __slots__ = (
        "__weakref__",
        "host",
        "is_closed_by_broker",
        "is_inter_broker",
        "is_over_inter_broker",
        "listener_name",
        "listener_protocol",
        "peer",
        "principal",
        "refused_batches",
    )

    def __init__(self, address: tuple[str, int] | None, principal: Principal = ANONYMOUS) -> None:
        self.host = address[0] if address else ""
        self.peer = f"{address[0]}:{address[1]}" if address else ""
        self.principal = principal
        self.refused_batches = RefusedBatches()
        self.listener_name = self.listener_protocol = ""
        self.is_inter_broker = self.is_over_inter_broker = False
        self.is_closed_by_broker = True
        """The end of a request is not the client's doing: it releases nothing that the client holds."""

    def close(self) -> None:
        """Do nothing: every HTTP request is answered."""

    def cancel_on_disconnect(self, waiting: asyncio.Future[Any]) -> None:
        """Do nothing: the request awaits it, and is cancelled itself."""


def authenticate(authorization: bytes | None, mechanisms: Mapping[str, Authenticator]) -> Principal:
    """The principal of a request by its header; raises a problem where authentication fails."""
    plain = mechanisms.get("PLAIN")
    if plain is None:
        raise Problem(
            403, "this broker authenticates by mechanisms that HTTP cannot carry; add PLAIN to sasl.enabled.mechanisms"
        )
    if authorization is None:
        raise Problem(401, "authentication is needed: send Authorization: Basic", headers=_CHALLENGE)
    scheme, _, credentials = authorization.partition(b" ")
    try:
        if scheme.lower() != b"basic":
            raise ValueError
        name, separator, password = base64.b64decode(credentials.strip(), validate=True).partition(b":")
        if not separator:
            raise ValueError
    except (ValueError, binascii.Error):
        raise Problem(401, "Authorization is not of the form Basic base64(name:password)", headers=_CHALLENGE) from None
    step = plain.begin().step(b"\0".join((b"", name, password)))
    if not isinstance(step, Accepted):
        raise Problem(401, "name or password is wrong", headers=_CHALLENGE)
    return step.principal
