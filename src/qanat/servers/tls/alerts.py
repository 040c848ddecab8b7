"""The alert of a handshake that failed: event loops drop it, and the client would only see that its connection ends.

With TLS 1.3 a client has done its part of the handshake before the broker looks at its certificate. Only the alert
tells it that the certificate is refused; without one it takes the broker for unavailable, and tries again.
"""

from __future__ import annotations

import asyncio
import socket
import ssl

_LIMIT_S = 2.0
"""How long the client has to take the alert and to end the connection."""


class FailedHandshakeError(ssl.SSLError):
    """Its cause says why; `alert` is what the client has yet to be sent."""

    def __init__(self, alert: bytes) -> None:
        super().__init__("the handshake failed")
        self.alert = alert


class _Handshake(ssl.SSLObject):
    outgoing: ssl.MemoryBIO

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as fault:
            raise FailedHandshakeError(self.outgoing.read()) from fault


class AlertingContext(ssl.SSLContext):
    """A context whose failed handshakes raise `FailedHandshakeError`."""

    sslobject_class = _Handshake

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        made = super().wrap_bio(incoming, outgoing, server_side, server_hostname, session)
        assert isinstance(made, _Handshake)
        made.outgoing = outgoing
        return made


async def send_alert(connection: socket.socket, alert: bytes) -> None:
    """Send it and wait for the client's end: closing earlier would reset the connection, and may destroy the alert."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_LIMIT_S):
            await loop.sock_sendall(connection, alert)
            connection.shutdown(socket.SHUT_WR)
            while await loop.sock_recv(connection, 1 << 16):
                pass
    except OSError:
        return  # It is gone, or slower than the limit.
