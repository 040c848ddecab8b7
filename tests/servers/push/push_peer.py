"""A push client on a bare socket: it sends what a test wants, in any order, and shows every frame that comes."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections import deque
from types import TracebackType

from qanat.connection.sasl import dialogue
from qanat.testing import BrokerHere
from qanat.wire.push.control import (
    Ack,
    Control,
    Disconnect,
    Heartbeat,
    Kind,
    Subscribe,
    decode_control,
    encode_control,
)
from qanat.wire.push.data import PushedBatches, PushedRecord, decode_data
from qanat.wire.push.frames import FrameType, PushFrame, PushFrameReader, encode_frame

WAIT_S = 60.0
_TYPES = {Subscribe: FrameType.SUBSCRIBE, Heartbeat: FrameType.HEARTBEAT}


class PushPeer:
    """One connection. `async with PushPeer(broker)`."""

    def __init__(self, address: str | BrokerHere, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self._address = address if isinstance(address, str) else address.bootstrap_servers
        self._frames: deque[PushFrame] = deque()
        self._split = PushFrameReader(2**24)
        self._next_id = 0

    async def __aenter__(self) -> PushPeer:
        host, _, port = self._address.rpartition(":")
        self._reader, self._writer = await asyncio.open_connection(
            host, int(port), ssl=self._tls, server_hostname=None if self._tls is None else "localhost"
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.transport.abort()

    def kill(self) -> None:
        """Go away without a word."""
        self._writer.transport.abort()

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    def send(self, frame_type: int, payload: bytes = b"", frame_id: int | None = None) -> int:
        if frame_id is None:
            self._next_id += 1
            frame_id = self._next_id
        self._writer.write(encode_frame(frame_type, frame_id, payload))
        return frame_id

    def say(self, value: Control) -> int:
        """Send SUBSCRIBE or HEARTBEAT."""
        return self.send(_TYPES[type(value)], encode_control(value))

    def acknowledge(self, frame_id: int, value: Ack | None = None) -> None:
        self.send(FrameType.ACK, b"" if value is None else encode_control(value), frame_id)

    async def frame(self) -> PushFrame:
        """The next frame; raises `EOFError` at the end of the connection."""
        async with asyncio.timeout(WAIT_S):
            while not self._frames:
                data = await self._reader.read(65_536)
                if not data:
                    raise EOFError
                self._frames.extend(self._split.received(data))
        return self._frames.popleft()

    async def expect(self, frame_type: FrameType) -> PushFrame:
        """The next frame, which must be of this type; heartbeats of the broker are passed over."""
        while True:
            frame = await self.frame()
            if frame.type == frame_type:
                return frame
            assert frame.type == FrameType.HEARTBEAT, f"{FrameType(frame.type).name}: {bytes(frame.payload)!r}"

    async def ask(self, value: Control) -> Ack:
        """Send SUBSCRIBE or HEARTBEAT, and get its answer."""
        sent = self.say(value)
        answer = await self.expect(FrameType.ACK)
        assert answer.id == sent
        return decode_control(Ack, answer.payload)

    async def log_in(self, user: str, password: str, mechanism: str = "SCRAM-SHA-512") -> Ack:
        """Authenticate; the last answer. Raises `EOFError` where the broker ends the connection before."""
        talk = dialogue(mechanism, user, password, "nonce")
        token: bytes | None = talk.begin()
        said = Heartbeat(1, mechanism=mechanism)
        while True:
            assert token is not None
            said = Heartbeat(1, mechanism=said.mechanism, token=base64.b64encode(token).decode())
            answer = await self.ask(said)
            token = talk.step(base64.b64decode(answer.token or ""))
            if answer.is_authenticated:
                return answer
            said = Heartbeat(1)

    async def record(self) -> tuple[int, PushedRecord]:
        frame = await self.expect(FrameType.DATA)
        record = decode_data(frame.payload)
        assert isinstance(record, PushedRecord)
        return frame.id, record

    async def batches(self) -> tuple[int, PushedBatches]:
        frame = await self.expect(FrameType.DATA)
        batches = decode_data(frame.payload)
        assert isinstance(batches, PushedBatches)
        return frame.id, batches

    async def reason(self) -> str:
        """Why the broker ends the connection."""
        frame = await self.expect(FrameType.DISCONNECT)
        return decode_control(Disconnect, frame.payload).reason

    async def is_silent(self, seconds: float = 0.3) -> bool:
        """Whether nothing comes for a while."""
        try:
            async with asyncio.timeout(seconds):
                frame = await self.frame()
        except TimeoutError:
            return True
        self._frames.appendleft(frame)
        return False


def control(kind: type[Kind], frame: PushFrame) -> Kind:
    return decode_control(kind, frame.payload)


__all__ = ["WAIT_S", "PushPeer", "control"]
