"""Closes new connections of addresses that guess passwords, before a protocol is made for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from qanat.servers.login_guard import LoginGuard


class GuardedAccept:
    """The new connections of one listener without TLS. An instance is the protocol factory of its server."""

    def __init__(self, guard: LoginGuard, accept: Callable[[], asyncio.BaseProtocol]) -> None:
        """`accept` makes the protocol of a connection that is let in."""
        self._guard = guard
        self._accept = accept

    def __call__(self) -> asyncio.BaseProtocol:
        return _Accepted(self._guard, self._accept)


class _Accepted(asyncio.Protocol):
    """A connection that was just accepted: it gets its own protocol before any byte is read, or is closed."""

    __slots__ = ("_accept", "_guard")

    def __init__(self, guard: LoginGuard, accept: Callable[[], asyncio.BaseProtocol]) -> None:
        self._guard = guard
        self._accept = accept

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        accepted = cast(asyncio.Transport, transport)  # uvloop's behaves as one, but is none by type.
        peer = accepted.get_extra_info("peername")
        if peer and self._guard.shuts_out(peer[0]):
            accepted.abort()
            return
        protocol = self._accept()
        accepted.set_protocol(protocol)
        protocol.connection_made(accepted)
