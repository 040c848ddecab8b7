"""One socket to a broker: requests go out framed and numbered, answers return to their callers.

Requests may be sent before earlier ones are answered. A broken connection fails all waiting and all later
callers; a caller that wants to continue opens another.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Sequence
from typing import cast
from weakref import WeakKeyDictionary

from qanat.connection.deadline import Deadline
from qanat.connection.faults import OutOfTimeError, UnreachableError
from qanat.connection.network import TCP, Network
from qanat.connection.security import Tls
from qanat.connection.tls import NO_TLS, WANTS_CERTIFICATE, context_of, describe_fault, untrusted
from qanat.model.errors import MalformedMessageError
from qanat.wire.frames import FrameReader
from qanat.wire.kafka.headers import frame_request
from qanat.wire.kafka.writing import Chunk

UNANSWERED_MAX = 100
"""Requests in flight at one time."""
ANSWER_BYTES_MAX = 128 * 1024 * 1024
"""Largest answer that is accepted."""
_SILENT_S = 2.0
"""A connection whose oldest request has had no answer for so long, and was given up, is not used again."""
_CLOSE_S = 1.0
"""How long a socket may take to close."""
_CORRELATION_MASK = 2**31 - 1


class Channel(asyncio.BufferedProtocol):
    """A connection that is open until it breaks or is closed. Made by `open`."""

    def __init__(self, address: str, client_id: str, is_protected: bool = False) -> None:
        self.address = address
        self._is_protected = is_protected
        self._was_answered = False
        self._client_id = client_id
        self._frames = FrameReader(ANSWER_BYTES_MAX)
        self._waiting: dict[int, asyncio.Future[memoryview]] = {}
        self._next_id = 0
        self._transport: asyncio.Transport | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._fault: UnreachableError | None = None
        self._buffer = memoryview(b"")
        self._lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @staticmethod
    async def open(
        host: str, port: int, client_id: str, deadline: Deadline, tls: Tls | None = None, network: Network = TCP
    ) -> Channel:
        """Connect; raises `UnreachableError` saying why not, `OutOfTimeError` where there is no answer.

        Over TLS also `UntrustedError`, and `InvalidSettingError` where its files cannot be used.
        """
        address = f"{host}:{port}"
        context = None if tls is None else context_of(tls)
        connecting = network.connect(
            lambda: Channel(address, client_id, tls is not None), host, port, context, close_s=_CLOSE_S
        )
        try:
            _, channel = await deadline.bound(connecting, f"a connection to {address}")
        except ssl.SSLCertVerificationError as fault:
            raise untrusted(address, fault) from None
        except OSError as fault:
            is_cut_off = tls is not None and isinstance(fault, ConnectionError) and not fault.errno
            reason = NO_TLS if is_cut_off else _reason(fault)
            raise UnreachableError(f"cannot connect to {address}: {reason}") from None
        return channel

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    async def call(self, api_key: int, version: int, body: Sequence[Chunk], deadline: Deadline) -> memoryview:
        """Send a request and wait for its answer: the whole frame, header included."""
        correlation_id = await self._send(api_key, version, body, deadline)
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[memoryview] = loop.create_future()
        self._waiting[correlation_id] = waiting
        sent_s = loop.time()
        try:
            return await deadline.bound(waiting, f"an answer of {self.address}")
        except OutOfTimeError:
            # Answers come in the order of their requests: later ones wait behind this one. Where the other end is gone
            # without a word (power, a firewall), nothing else would ever end the connection.
            is_oldest = next(iter(self._waiting), correlation_id) == correlation_id
            if is_oldest and loop.time() - sent_s >= _SILENT_S:
                self.abort()
            raise
        finally:
            self._waiting.pop(correlation_id, None)

    async def send_one_way(self, api_key: int, version: int, body: Sequence[Chunk], deadline: Deadline) -> None:
        """Send a request that has no answer: produce with acks=0."""
        await self._send(api_key, version, body, deadline)

    async def _send(self, api_key: int, version: int, body: Sequence[Chunk], deadline: Deadline) -> int:
        assert len(self._waiting) < UNANSWERED_MAX, "callers wait for answers before they send more"
        if not self._writable.is_set():
            await deadline.bound(self._writable.wait(), f"room to send to {self.address}")
        if self._transport is None or self._transport.is_closing():
            raise self._fault or UnreachableError(f"the connection to {self.address} is closed")
        correlation_id = self._next_id
        self._next_id = (self._next_id + 1) & _CORRELATION_MASK
        self._transport.writelines(frame_request(api_key, version, correlation_id, self._client_id, body))
        return correlation_id

    async def close(self) -> None:
        """Close; waiting callers fail."""
        if self._transport is not None:
            self._transport.close()
            await asyncio.wait([self._lost], timeout=_CLOSE_S)

    def abort(self) -> None:
        """Close at once, without a shutdown; waiting callers fail."""
        if self._transport is not None:
            self._transport.abort()

    # Called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        _open_channels.setdefault(self._lost.get_loop(), set()).add(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        self._buffer = self._frames.buffer()
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for frame in self._frames.received(nbytes):
                self._answer(frame)
        except MalformedMessageError as fault:
            reason = _other_protocol(bytes(self._buffer[: min(nbytes, 8)])) or str(fault)
            self._break(f"{self.address} answers with what is not Kafka's protocol: {reason}")

    def connection_lost(self, exc: Exception | None) -> None:
        reason = f": {_reason(exc)}" if isinstance(exc, OSError) else ""
        if self._is_protected and not self._was_answered and not reason:
            # In TLS 1.3 a client learns only afterwards that it was refused, and some servers do not even say so.
            reason = f": {WANTS_CERTIFICATE}"
        self._break(f"{self.address} closed the connection{reason}")
        self._transport = None
        _open_channels.get(self._lost.get_loop(), set()).discard(self)
        if not self._lost.done():
            self._lost.set_result(None)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def _answer(self, frame: memoryview) -> None:
        if len(frame) < 4:
            raise MalformedMessageError(f"an answer of {len(frame)} bytes has no correlation id")
        self._was_answered = True
        correlation_id = int.from_bytes(frame[:4])
        waiting = self._waiting.pop(correlation_id, None)
        # A caller that stopped waiting no longer needs the answer.
        if waiting is not None and not waiting.done():
            waiting.set_result(frame)

    def _break(self, reason: str) -> None:
        if self._fault is None:
            self._fault = UnreachableError(reason)
        self._writable.set()
        waiting, self._waiting = self._waiting, {}
        for one in waiting.values():
            if not one.done():
                one.set_exception(UnreachableError(reason))
        if self._transport is not None:
            self._transport.abort()


_open_channels: WeakKeyDictionary[asyncio.AbstractEventLoop, set[Channel]] = WeakKeyDictionary()
"""The channels of each event loop, whose thread alone changes them."""


async def abort_channels() -> None:
    """Abort all channels of the running loop, which is about to end."""
    channels = tuple(_open_channels.get(asyncio.get_running_loop(), ()))
    for channel in channels:
        channel.abort()
    if channels:
        await asyncio.wait([channel._lost for channel in channels], timeout=_CLOSE_S)


def _other_protocol(head: bytes) -> str | None:
    """The protocol that the first bytes of an answer belong to."""
    if head.startswith(b"HTTP/"):
        return "it speaks HTTP"
    if head.startswith(b"SSH-"):
        return "it speaks SSH"
    if head[:2] in (b"\x15\x03", b"\x16\x03"):
        return "it wants TLS: security.protocol should be SSL or SASL_SSL"
    return None


def _reason(fault: OSError) -> str:
    """asyncio joins several attempts into one text; the first reason is the one that helps."""
    if isinstance(fault, ssl.SSLError):
        return describe_fault(fault)
    if isinstance(fault, socket.gaierror):
        return f"the name is not known here ({fault.strerror}): check its spelling"
    if fault.errno == errno.ECONNREFUSED or "Connect call failed" in str(fault):
        return "nothing listens there"
    return fault.strerror or str(fault)
