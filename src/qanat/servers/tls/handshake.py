"""A connection from its acceptance to the end of its TLS handshake; its protocol is made when the handshake is done.

So that a client without a handshake costs little: it has no protocol, no buffers, a deadline, and a limited number of
others beside it. The context is chosen per connection, which is how new certificates take effect without a restart.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import cast

from qanat.connection.tls import describe_fault
from qanat.model.ordered_set import OrderedSet
from qanat.security.authentication import Principal
from qanat.servers.tls.listener_tls import ListenerTls
from qanat.telemetry.events import RateLimitedEvent

HANDSHAKE_S = 10.0
HANDSHAKES_MAX = 1_000
"""Handshakes at one time; more are closed at once."""
_SHUTDOWN_S = 2.0


class TlsHandshakes:
    """The handshakes of one listener. An instance is the protocol factory of its server."""

    def __init__(
        self,
        tls: ListenerTls,
        accept: Callable[[Principal], asyncio.BaseProtocol],
        *,
        handshake_s: float = HANDSHAKE_S,
        handshakes_max: int = HANDSHAKES_MAX,
    ) -> None:
        """`accept` makes the protocol of a connection whose handshake is done, for the principal of its certificate."""
        self.tls = tls
        self._accept = accept
        self._handshake_s = handshake_s
        self._handshakes_max = handshakes_max
        self._running: OrderedSet[asyncio.Task[None]] = OrderedSet()
        self._log_failed = RateLimitedEvent("TLS handshake failed")

    def __call__(self) -> asyncio.Protocol:
        return _Accepted(self._begin)

    def _begin(self, transport: asyncio.Transport) -> None:
        if len(self._running) >= self._handshakes_max:
            self._note_failed(transport, f"{self._handshakes_max} others are under way")
            transport.abort()
            return
        transport.pause_reading()
        task = asyncio.get_running_loop().create_task(self._shake_hands(transport))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _shake_hands(self, transport: asyncio.Transport) -> None:
        protocol = _Handed()
        try:
            protected = await asyncio.get_running_loop().start_tls(
                transport,
                protocol,
                self.tls.context,
                server_side=True,
                ssl_handshake_timeout=self._handshake_s,
                ssl_shutdown_timeout=_SHUTDOWN_S,
            )
        except (OSError, TimeoutError) as fault:
            if (reason := _reason(fault)) is not None:
                self._note_failed(transport, reason)
            transport.abort()
            return
        if protected is None or protected.is_closing():
            return
        principal = self.tls.principal_of(protected)
        if principal is None:
            self._note_failed(transport, "no rule of ssl.principal.mapping.rules matches the client's certificate")
            protected.abort()
            return
        accepted = self._accept(principal)
        protected.set_protocol(accepted)
        accepted.connection_made(protected)
        protocol.pass_on(accepted)

    def _note_failed(self, transport: asyncio.Transport, reason: str) -> None:
        self.tls.failed_handshakes += 1
        address = transport.get_extra_info("peername")
        self._log_failed(listener=self.tls.name, peer=f"{address[0]}:{address[1]}" if address else "", reason=reason)

    async def close(self) -> None:
        """End the handshakes that are under way."""
        for task in list(self._running):
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)


class _Accepted(asyncio.Protocol):
    """A connection that was just accepted."""

    def __init__(self, begin: Callable[[asyncio.Transport], None]) -> None:
        self._begin = begin

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._begin(cast(asyncio.Transport, transport))  # uvloop's behaves as one, but is none by type.


class _Handed(asyncio.Protocol):
    """Stands for the connection until its own protocol is there; what comes with the end of the handshake is kept."""

    def __init__(self) -> None:
        self._early: list[bytes] = []
        self._lost: Exception | None = None
        self._is_lost = False

    def data_received(self, data: bytes) -> None:
        self._early.append(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost, self._is_lost = exc, True

    def pass_on(self, protocol: asyncio.BaseProtocol) -> None:
        """Give what came meanwhile to the connection's own protocol."""
        for data in self._early:
            _deliver(protocol, data)
        if self._is_lost:
            protocol.connection_lost(self._lost)


def _deliver(protocol: asyncio.BaseProtocol, data: bytes) -> None:
    if not isinstance(protocol, asyncio.BufferedProtocol):
        cast(asyncio.Protocol, protocol).data_received(data)
        return
    while data:
        buffer = memoryview(protocol.get_buffer(len(data)))
        count = min(len(buffer), len(data))
        buffer[:count] = data[:count]
        protocol.buffer_updated(count)
        data = data[count:]


def _reason(fault: BaseException) -> str | None:
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
