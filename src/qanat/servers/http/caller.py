"""Who asks over HTTP: an address, and a principal that was authenticated as on the Kafka door.

Where the Kafka listener wants clients to authenticate, this door wants `Authorization: Basic` and asks the same
mechanism (PLAIN). Handlers of the Kafka door see a caller where they would see a connection.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Mapping
from typing import Any

from qanat.security.authentication import ANONYMOUS, Accepted, Authenticator, Principal
from qanat.servers.http.problems import Problem

CLIENT_ID = "qanat-http"
"""What this door calls itself, here and at other brokers; members of groups with this name have its session."""
_CHALLENGE = ((b"www-authenticate", b'Basic realm="qanat", charset="UTF-8"'),)


class Caller:
    """One request's asker, in a connection's place."""

    __slots__ = ("__weakref__", "_waiting", "host", "is_inter_broker", "is_let_go", "peer", "principal")

    def __init__(self, address: tuple[str, int] | None, principal: Principal = ANONYMOUS) -> None:
        self.host = address[0] if address else ""
        self.peer = f"{address[0]}:{address[1]}" if address else ""
        self.principal = principal
        self.is_inter_broker = False
        self.is_let_go = True
        """Whether it was us who hung up: a request's end says nothing about what its caller holds."""
        self._waiting: asyncio.Future[Any] | None = None

    def close(self) -> None:
        """Nothing to end: every request of this door is answered."""

    def wait_with(self, waiting: asyncio.Future[Any]) -> None:
        """Remember what is waited for on this caller's behalf alone."""
        self._waiting = waiting

    def give_up(self) -> None:
        """The caller is gone: nobody wants to know any more."""
        if self._waiting is not None:
            self._waiting.cancel()


def authenticated(authorization: bytes | None, mechanisms: Mapping[str, Authenticator] | None) -> Principal:
    """Whose request this is; raises a problem where nobody is let in with that."""
    if mechanisms is None:
        return ANONYMOUS
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
