"""Frames of the push protocol: `[type 1][message id 8][payload length 4][payload]`, big-endian.

Rule 1: a length over the limit is refused as soon as the 13 bytes are there. A payload that has only begun takes as
        much memory as has arrived, whatever length it announces.
Rule 2: frames in front of a bad one count, however the bytes were cut: `fault` is looked at after them.
Rule 3: a frame without a payload takes 13 bytes on its way and hundreds in memory: of a client that has not
        authenticated, a few are taken at a time.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from qanat.model.errors import MalformedMessageError

_HEADER = Struct(">BQI")
_read_header = _HEADER.unpack_from
HEADER_SIZE = _HEADER.size
LAST_ID = 2**64 - 1
UNAUTHENTICATED_BYTES = 64 * 1024
"""Longest payload before authentication, and what control frames may have beyond a topic's longest batch."""
UNAUTHENTICATED_FRAMES = 16
"""Most frames that may come together before authentication: each token waits for the answer to the one before."""
_ANY_NUMBER = 2**63


class FrameType(IntEnum):
    """What a frame is; its first byte, which no short frame of Kafka's protocol begins with."""

    DATA = 1
    ACK = 2
    SUBSCRIBE = 3
    COMMIT_OFFSET = 4
    RESET = 5
    READY = 6
    DISCONNECT = 7
    HEARTBEAT = 8


FIRST_TYPE, LAST_TYPE = int(min(FrameType)), int(max(FrameType))


class PushFrame(NamedTuple):
    """One frame. An ACK has the id of the frame that it answers; other frames have their own."""

    type: int
    id: int
    payload: memoryview


def frame_header(frame_type: int, frame_id: int, length: int) -> bytes:
    """The 13 bytes in front of a payload."""
    return _HEADER.pack(frame_type, frame_id, length)


def encode_frame(frame_type: int, frame_id: int, payload: bytes = b"") -> bytes:
    return _HEADER.pack(frame_type, frame_id, len(payload)) + payload


class PushFrameReader:
    """Splits one connection's bytes into frames; `fault` is set where no frame can follow any more."""

    __slots__ = ("_max_bytes", "_max_frames", "_needed", "_rest", "fault")

    def __init__(self, max_bytes: int, max_frames: int = _ANY_NUMBER) -> None:
        self._max_bytes = max_bytes
        self._max_frames = max_frames
        self._rest = bytearray()
        self._needed = 0
        self.fault: MalformedMessageError | None = None

    def limit(self, max_bytes: int, max_frames: int = _ANY_NUMBER) -> None:
        """Change the longest payload that is accepted, and how many frames at once, as after authentication."""
        self._max_bytes, self._max_frames = max_bytes, max_frames

    @property
    def held_bytes(self) -> int:
        """Memory of a frame that is incomplete."""
        return len(self._rest)

    @property
    def missing_bytes(self) -> int:
        """Bytes that complete the longest frame that may come: who takes no more holds one frame at most."""
        return max(HEADER_SIZE + self._max_bytes - len(self._rest), 1)

    def received(self, data: bytes | bytearray) -> list[PushFrame]:
        """The frames that these bytes complete; they refer to `data`, which must not change any more."""
        if self.fault is not None:
            return []
        if self._rest:
            self._rest += data
            if len(self._rest) < self._needed:
                return []
            data, self._rest = self._rest, bytearray()
        return self._cut(memoryview(data))

    def _cut(self, view: memoryview) -> list[PushFrame]:
        frames: list[PushFrame] = []
        at, end = 0, len(view)
        needed = HEADER_SIZE
        while end - at >= HEADER_SIZE:
            frame_type, frame_id, length = _read_header(view, at)
            if not FIRST_TYPE <= frame_type <= LAST_TYPE or length > self._max_bytes:
                self.fault = _refusal(frame_type, length, self._max_bytes)
                return frames
            stop = at + HEADER_SIZE + length
            if stop > end:
                needed = HEADER_SIZE + length
                break
            if len(frames) == self._max_frames:
                self.fault = _too_many(self._max_frames)
                return frames
            frames.append(PushFrame(frame_type, frame_id, view[at + HEADER_SIZE : stop]))
            at = stop
        if at < end:
            self._rest = bytearray(view[at:])
            self._needed = needed
        return frames


def _refusal(frame_type: int, length: int, max_bytes: int) -> MalformedMessageError:
    if not FIRST_TYPE <= frame_type <= LAST_TYPE:
        return MalformedMessageError(f"there is no frame of type {frame_type}; types are 1 to {LAST_TYPE}")
    return MalformedMessageError(f"a payload of {length} bytes is announced, at most {max_bytes} are accepted")


def _too_many(max_frames: int) -> MalformedMessageError:
    return MalformedMessageError(
        f"more than {max_frames} frames came together before authentication; send a token and wait for its answer"
    )
