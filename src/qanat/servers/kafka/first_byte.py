"""The first byte of a connection tells Kafka's protocol and the push protocol apart (decision 0019).

A short frame of Kafka begins with 0x00, a push frame with 0x01 to 0x08. The connection counts as one of Kafka until its
first byte is there: the limits for connections that have not authenticated hold for it as for any other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from qanat.wire.push.frames import FIRST_TYPE, LAST_TYPE

if TYPE_CHECKING:
    from qanat.security.authentication import Principal
    from qanat.servers.kafka.connection import KafkaProtocol
    from qanat.servers.kafka.endpoint import KafkaEndpoint


class PushAcceptor(Protocol):
    """What serves push connections."""

    @property
    def connection_count(self) -> int: ...

    def accept(self, endpoint: KafkaEndpoint, principal: Principal) -> asyncio.BufferedProtocol:
        """The protocol of a connection that has begun with a push frame."""

    async def close(self) -> None: ...


class FirstByte(asyncio.BufferedProtocol):
    """A connection until its first byte; then its transport has the protocol that it belongs to."""

    def __init__(self, kafka: KafkaProtocol, make_push: Callable[[], asyncio.BufferedProtocol]) -> None:
        self._target: asyncio.BufferedProtocol = kafka
        self._make_push = make_push
        self._transport: asyncio.BaseTransport | None = None
        self._buffer = memoryview(b"")
        self._is_known = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._target.connection_made(transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        self._buffer = memoryview(self._target.get_buffer(sizehint))
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        transport, buffer = self._transport, self._buffer
        self._buffer = memoryview(b"")
        if not self._is_known and transport is not None:
            self._is_known = True
            if FIRST_TYPE <= buffer[0] <= LAST_TYPE:
                self._become_push(transport, bytes(buffer[:nbytes]))
                return
            transport.set_protocol(self._target)
        self._target.buffer_updated(nbytes)

    def _become_push(self, transport: asyncio.BaseTransport, data: bytes) -> None:
        self._target.connection_lost(None)
        self._target = self._make_push()
        transport.set_protocol(self._target)
        self._target.connection_made(transport)
        while data:
            room = memoryview(self._target.get_buffer(len(data)))
            count = min(len(room), len(data))
            room[:count] = data[:count]
            self._target.buffer_updated(count)
            data = data[count:]

    def eof_received(self) -> bool | None:
        return self._target.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._target.connection_lost(exc)

    def pause_writing(self) -> None:
        self._target.pause_writing()

    def resume_writing(self) -> None:
        self._target.resume_writing()
