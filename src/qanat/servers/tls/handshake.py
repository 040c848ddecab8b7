"""A connection from its acceptance to the end of its TLS handshake; its protocol is made when the handshake is done.

So that a client without a handshake costs little: it has no protocol, no buffers, a deadline, and a limited number of
others beside it. The context is chosen per connection, which is how new certificates take effect without a restart.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from qanat.connection.tls import describe_fault
from qanat.model.ordered_set import OrderedSet
from qanat.security.authentication import Principal
from qanat.servers.tls.alerts import FailedHandshakeError, send_alert
from qanat.servers.tls.listener_tls import ListenerTls
from qanat.telemetry.events import RateLimitedEvent

if TYPE_CHECKING:
    from qanat.servers.login_guard import LoginGuard

HANDSHAKE_S = 10.0
HANDSHAKES_MAX = 1_000
"""Handshakes at one time; more are closed at once."""
_SHUTDOWN_S = 2.0
_Peer = tuple[str, int] | None


class TlsHandshakes:
    """The handshakes of one listener. An instance is the protocol factory of its server."""

    def __init__(
        self,
        tls: ListenerTls,
        accept: Callable[[Principal], asyncio.BaseProtocol],
        guard: LoginGuard | None = None,
        *,
        handshake_s: float = HANDSHAKE_S,
        handshakes_max: int = HANDSHAKES_MAX,
    ) -> None:
        """`accept` makes the protocol of a connection whose handshake is done, for the principal of its certificate.

        Addresses that `guard` shuts out get no handshake.
        """
        self.tls = tls
        self._guard = guard
        self._accept = accept
        self._handshake_s = handshake_s
        self._handshakes_max = handshakes_max
        self._running: OrderedSet[asyncio.Task[None]] = OrderedSet()
        self._is_closed = False
        self._log_failed = RateLimitedEvent("TLS handshake failed")

    def __call__(self) -> asyncio.Protocol:
        return _Accepted(self._begin)

    def _begin(self, transport: asyncio.Transport) -> None:
        accepted = transport.get_extra_info("socket")
        peer = transport.get_extra_info("peername")
        if self._is_closed or (self._guard is not None and peer and self._guard.shuts_out(peer[0])):
            transport.abort()
            return
        if len(self._running) >= self._handshakes_max:
            self._note_failed(peer, f"{self._handshakes_max} others are under way")
            transport.abort()
            return
        # The loop reads from an accepted connection at once, and would take the client's first bytes from TLS. So this
        # transport ends unread, and another one begins on the same connection.
        try:
            connection = _duplicate(accepted)
        except OSError as fault:
            self._note_failed(peer, f"the broker cannot serve it now: {fault.strerror}")
            return
        finally:
            transport.abort()
        task = asyncio.get_running_loop().create_task(self._shake_hands(connection, peer))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _shake_hands(self, connection: socket.socket, peer: _Peer) -> None:
        kept: socket.socket | None = None  # The loop closes the other one before we know of the failure.
        try:
            kept = _duplicate(connection)
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: _Protected(self.tls.principal_of, self._accept, lambda: self._note_unmapped(peer)),
                connection,
                ssl=self.tls.context,
                ssl_handshake_timeout=self._handshake_s,
                ssl_shutdown_timeout=_SHUTDOWN_S,
            )
        except OSError as fault:
            if (reason := _reason(fault.__cause__ if isinstance(fault, FailedHandshakeError) else fault)) is not None:
                self._note_failed(peer, reason)
            connection.close()
            if kept is not None and isinstance(fault, FailedHandshakeError):
                await send_alert(kept, fault.alert)
        finally:
            if kept is not None:
                kept.close()

    def _note_unmapped(self, peer: _Peer) -> None:
        self._note_failed(peer, "no rule of ssl.principal.mapping.rules matches the client's certificate")

    def _note_failed(self, peer: _Peer, reason: str) -> None:
        self.tls.failed_handshakes += 1
        self._log_failed(listener=self.tls.name, peer=f"{peer[0]}:{peer[1]}" if peer else "", reason=reason)

    async def close(self) -> None:
        """End the handshakes that are under way, and begin no more."""
        self._is_closed = True
        for task in list(self._running):
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)


class _Accepted(asyncio.Protocol):
    """A connection that was just accepted."""

    def __init__(self, begin: Callable[[asyncio.Transport], None]) -> None:
        self._begin = begin

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._begin(cast(asyncio.Transport, transport))  # uvloop's behaves as one, but is none by type.


class _Protected(asyncio.Protocol):
    """A connection whose handshake is done: it gets its own protocol before any byte is read."""

    def __init__(
        self,
        principal_of: Callable[[asyncio.BaseTransport], Principal | None],
        accept: Callable[[Principal], asyncio.BaseProtocol],
        refuse: Callable[[], None],
    ) -> None:
        self._principal_of = principal_of
        self._accept = accept
        self._refuse = refuse

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        protected = cast(asyncio.Transport, transport)
        principal = self._principal_of(protected)
        if principal is None:
            self._refuse()
            protected.abort()
            return
        protocol = self._accept(principal)
        protected.set_protocol(protocol)
        protocol.connection_made(protected)


def _duplicate(connection: socket.socket) -> socket.socket:
    """Another handle of the connection; not `socket.dup`, which may make both of them block."""
    made = socket.socket(fileno=os.dup(connection.fileno()))
    made.setblocking(False)
    return made


def _reason(fault: BaseException | None) -> str | None:
    """Why a handshake failed; None where the client only looked whether the port answers, and went away."""
    if isinstance(fault, ssl.SSLCertVerificationError):
        return f"the client's certificate is not accepted: {fault.verify_message or fault.reason}"
    if isinstance(fault, ssl.SSLError):
        reason = (fault.reason or str(fault)).lower().replace("_", " ")
        if "http request" in reason or "wrong version number" in reason:
            return "the client does not speak TLS"
        if "peer did not return a certificate" in reason:
            return "the client shows no certificate (ssl.client.auth=required)"
        if "alert" in reason:
            return f"the client ended it: {reason}"
        return describe_fault(fault)
    if isinstance(fault, TimeoutError) or "timeout" in str(fault) or "is taking longer" in str(fault):
        return "it took too long"
    return None
