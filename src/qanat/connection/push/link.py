"""One push connection to a broker: connect, authenticate, send and receive frames, stay alive.

Rule: a frame that comes is any sign of life; a broker without one for 30 s is gone, and `receive` says so.
"""

from __future__ import annotations

import asyncio
import base64
import secrets
import ssl
from collections import deque
from collections.abc import Sequence
from typing import cast

from qanat.connection.deadline import Deadline
from qanat.connection.faults import OutOfTimeError, RefusedError, UnreachableError
from qanat.connection.sasl import BearerDialogue, Dialogue, NotAuthenticatedError, dialogue
from qanat.connection.security import UNPROTECTED, Credentials, Security
from qanat.connection.tls import context_of, untrusted
from qanat.model.error_codes import ErrorCode
from qanat.model.errors import MalformedMessageError
from qanat.wire.push.control import VERSION, Ack, Control, Disconnect, Heartbeat, decode_control, encode_control
from qanat.wire.push.frames import FrameType, PushFrame, PushFrameReader, encode_frame

_PAYLOAD_MAX = 256 * 1024 * 1024
"""A broker is trusted further than a client."""
HEARTBEAT_S = 10.0
DEAD_S = 30.0
_NONCE_BYTES = 18
_TYPES: dict[str, FrameType] = {
    "Subscribe": FrameType.SUBSCRIBE,
    "Heartbeat": FrameType.HEARTBEAT,
    "CommitOffset": FrameType.COMMIT_OFFSET,
}
FINAL = frozenset(
    {
        "malformed",
        "wrong-order",
        "not-authorized",
        "authentication-failed",
        "unknown-mechanism",
        "no-authentication",
        "unknown-topic",
        "unknown-topic-or-partition",
        "invalid-topic-exception",
        "topic-authorization-failed",
        "group-authorization-failed",
        "group-refused",
        "no-group",
        "unreadable",
    }
)
"""Reasons after which another connection would fare no better."""


class DisconnectedError(UnreachableError):
    """The broker ended the connection; `reason` is its word for it."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{message} ({reason})" if message else reason)
        self.reason = reason

    @property
    def is_final(self) -> bool:
        return self.reason in FINAL


class PushLink(asyncio.Protocol):
    """A connection; made by `open`."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._transport: asyncio.Transport | None = None
        self._reader = PushFrameReader(_PAYLOAD_MAX)
        self._frames: deque[PushFrame] = deque()
        self._waiting: asyncio.Future[None] | None = None
        """Of who waits for a frame."""
        self._can_write = asyncio.Event()
        self._can_write.set()
        self._fault: Exception | None = None
        self._last_id = 0
        self._loop = asyncio.get_running_loop()
        self._heard_s = self._said_s = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None

    @staticmethod
    async def open(
        addresses: Sequence[tuple[str, int]], deadline: Deadline, security: Security = UNPROTECTED, client: str = ""
    ) -> PushLink:
        """Connect to the first address that answers, and authenticate; raises the last reason where none does."""
        fault: Exception = UnreachableError("there is no address")
        for number, (host, port) in enumerate(addresses):
            address = f"{host}:{port}"
            # One that does not answer, as a machine without power, leaves time for those behind it.
            share = Deadline.after(deadline.left_ms / 1000 / (len(addresses) - number))
            context = None if security.tls is None else context_of(security.tls)
            try:
                connecting = asyncio.get_running_loop().create_connection(
                    lambda: PushLink(address),  # noqa: B023
                    host,
                    port,
                    ssl=context,
                )
                _, link = await share.bound(connecting, f"a connection to {address}")
            except ssl.SSLCertVerificationError as untrue:
                raise untrusted(address, untrue) from None
            except OSError as reason:
                fault = UnreachableError(f"cannot connect to {address}: {reason.strerror or reason}")
                continue
            except OutOfTimeError as late:
                fault = late
                continue
            try:
                if security.credentials is not None:
                    await link._authenticate(security.credentials, client, deadline)
            except BaseException:
                link.close()
                raise
            return link
        raise fault

    # Called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._timer = self._loop.call_later(HEARTBEAT_S / 2, self._tick)

    def data_received(self, data: bytes) -> None:
        self._heard_s = self._loop.time()
        frames = self._reader.received(data)
        for frame in frames:
            if frame.type == FrameType.DISCONNECT:
                try:
                    said = decode_control(Disconnect, frame.payload)
                except MalformedMessageError as fault:
                    self._end(fault)
                    return
                self._end(DisconnectedError(said.reason, said.message))
            elif frame.type == FrameType.HEARTBEAT:
                if frame.id:
                    self.send(FrameType.ACK, b"", frame.id)
            else:
                self._frames.append(frame)
        if self._reader.fault is not None:
            self._end(self._reader.fault)
        elif self._frames:
            self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._end(UnreachableError(f"the connection to {self.address} broke"))
        if self._timer is not None:
            self._timer.cancel()

    def pause_writing(self) -> None:
        self._can_write.clear()

    def resume_writing(self) -> None:
        self._can_write.set()

    def _end(self, fault: Exception) -> None:
        if self._fault is None:
            self._fault = fault
        self._wake()
        self._can_write.set()
        self.close()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def _tick(self) -> None:
        now = self._loop.time()
        if now - self._heard_s >= DEAD_S:
            self._end(UnreachableError(f"{self.address} has been silent for {DEAD_S:.0f} s"))
            return
        if now - self._said_s >= HEARTBEAT_S:
            self.send(FrameType.HEARTBEAT, b"", 0)
        self._timer = self._loop.call_later(HEARTBEAT_S / 2, self._tick)

    # Frames

    @property
    def is_open(self) -> bool:
        return self._transport is not None and self._fault is None

    @property
    def fault(self) -> Exception:
        """Why it is not open any more."""
        return self._fault or UnreachableError(f"the connection to {self.address} was closed")

    def send(self, frame_type: int, payload: bytes = b"", frame_id: int | None = None) -> int:
        """Send a frame; returns its id. Nothing is sent over a broken connection: `receive` reports it."""
        if frame_id is None:
            self._last_id += 1
            frame_id = self._last_id
        if self._transport is not None:
            self._said_s = self._loop.time()
            self._transport.write(encode_frame(frame_type, frame_id, payload))
        return frame_id

    @property
    def is_writable(self) -> bool:
        """Whether `wait_writable` would neither wait nor raise."""
        return self._fault is None and self._can_write.is_set()

    async def wait_writable(self) -> None:
        """Wait while the socket is full."""
        await self._can_write.wait()
        if self._fault is not None:
            raise self._fault

    async def receive(self) -> PushFrame:
        """The next frame that is no heartbeat; raises why there is none any more."""
        while not self._frames:
            if self._fault is not None:
                raise self._fault
            self._waiting = self._loop.create_future()
            try:
                await self._waiting
            finally:
                self._waiting = None
        return self._frames.popleft()

    async def ask(self, value: Control, deadline: Deadline) -> Ack:
        """Send SUBSCRIBE or HEARTBEAT and get its ACK, before any other frame is expected."""
        frame_id = self.send(_TYPES[type(value).__name__], encode_control(value))
        frame = await deadline.bound(self.receive(), f"an answer of {self.address}")
        if frame.type != FrameType.ACK or frame.id != frame_id:
            raise UnreachableError(f"{self.address} answers with frame {frame.id} of type {frame.type}")
        answer = decode_control(Ack, frame.payload)
        if answer.error:
            raise RefusedError(ErrorCode.INVALID_REQUEST, f"{answer.message} ({answer.error})")
        return answer

    async def _authenticate(self, who: Credentials, client: str, deadline: Deadline) -> None:
        speaking: Dialogue
        if who.tokens is None:
            speaking = dialogue(who.mechanism, who.username, who.password, secrets.token_urlsafe(_NONCE_BYTES))
        else:
            speaking = BearerDialogue(await deadline.bound(asyncio.to_thread(who.tokens.read), "a token"))
        token: bytes | None = speaking.begin()
        mechanism = who.mechanism
        while token is not None:
            said = Heartbeat(VERSION, client=client, mechanism=mechanism, token=base64.b64encode(token).decode())
            try:
                answer = await self.ask(said, deadline)
            except DisconnectedError as fault:
                if fault.reason in ("authentication-failed", "unknown-mechanism"):
                    raise NotAuthenticatedError(f"{self.address}, asked to let {who.who} in: {fault}") from None
                raise
            token = speaking.step(base64.b64decode(answer.token or ""))
            mechanism = ""

    def fail(self, fault: Exception) -> None:
        """Give the connection up, because of what it brought or did not bring."""
        self._end(fault)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.close()
