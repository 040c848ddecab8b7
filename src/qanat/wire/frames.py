# cython: language_level=3, annotation_typing=False
"""Kafka's framing: a length of four bytes, then that many bytes. Bytes in, frames out.

The transport writes straight into `buffer()`. Small frames are copied out of
a shared buffer that a connection holds while a frame is incomplete: an idle connection holds none,
and one with a few bytes of a frame holds just those.
A frame that does not fit gets a room of its own, so a large produce request is
received where it will be read, once. `frame_buffers` provides the rooms.
Compiled and interpreted like `wire.record_reader`.

Rule 1: a length is checked before a byte is allocated for it.
Rule 2: a returned frame belongs to the caller, to read and to write.
Rule 3: `held_bytes` is the memory that an incomplete frame has really used: a room costs nothing before
        it is written to (`FrameBuffers` takes a function that makes one), so the declared length does not count.
"""

from __future__ import annotations

from struct import Struct

from qanat.model.errors import MalformedMessageError
from qanat.wire.frame_buffers import FrameBuffers

_LENGTH = Struct(">i")
_read_length = _LENGTH.unpack_from
LENGTH_SIZE = _LENGTH.size
_MOST_BYTES = 2**31 - 1
"""No length is larger."""
_SHARED_BYTES = 64 * 1024
_SPARE_BUFFERS = 16
_FEW_BYTES = 4096
"""A smaller part of a frame is put aside until more comes; with a larger one, the connection holds the buffer."""
_NOTHING = memoryview(b"")
COMPILED = not __file__.endswith(".py")


def length_at(buffer: memoryview, position: int) -> int:
    """The declared length of a frame."""
    if COMPILED:
        return native_length(buffer, position)  # type: ignore[name-defined,no-any-return]  # noqa: F821
    return int(_read_length(buffer, position)[0])


def copied(buffer: memoryview, start: int, end: int) -> memoryview:
    """A copy of a frame."""
    if COMPILED:
        return native_copy(buffer, start, end)  # type: ignore[name-defined,no-any-return]  # noqa: F821
    return memoryview(bytearray(buffer[start:end]))


class FrameReader:
    """Splits one connection's bytes into frames."""

    __slots__ = (
        "_end",
        "_frame",
        "_frame_end",
        "_max_bytes",
        "_rest",
        "_rooms",
        "_shared",
        "_spare",
        "_start",
        "held_bytes",
    )

    def __init__(self, max_bytes: int, rooms: FrameBuffers | None = None) -> None:
        self._max_bytes = min(max_bytes, _MOST_BYTES)
        self._rooms = rooms or FrameBuffers()
        self._spare = self._rooms.spare
        self._shared = _NOTHING
        self._start = 0
        self._end = 0
        self._frame: memoryview | None = None
        """A frame too large for the shared buffer, being received."""
        self._frame_end = 0
        self._rest = b""
        """The beginning of a frame, while there is little of it."""
        self.held_bytes = 0
        """Memory of the incomplete frame."""

    def limit(self, max_bytes: int) -> None:
        """Change the largest accepted frame, for example after authentication."""
        self._max_bytes = min(max_bytes, _MOST_BYTES)

    @property
    def is_idle(self) -> bool:
        """Whether no frame has begun."""
        return self.held_bytes == 0

    @property
    def begun_bytes(self) -> int:
        """Bytes of the incomplete frame."""
        return self._frame_end if self._frame is not None else len(self._rest) or self._end - self._start

    @property
    def missing_bytes(self) -> int:
        """Memory that the rest of that frame will need at most."""
        if self._frame is not None:
            return len(self._frame) - self._frame_end
        return 0 if self._shared is not _NOTHING else _SHARED_BYTES

    def buffer(self) -> memoryview:
        """Where the next bytes go; never empty."""
        if self._frame is not None:
            return self._frame[self._frame_end :]
        if self._shared is _NOTHING:
            self._shared = self._spare.pop() if self._spare else memoryview(bytearray(_SHARED_BYTES))
            self._end = len(self._rest)
            self._shared[: self._end] = self._rest
            self._rest = b""
        return self._shared[self._end :] if self._end else self._shared

    def release(self) -> None:
        """Give the shared buffer back: no more bytes will come."""
        self._start = self._end = 0
        self._frame = None
        self._rest = b""
        self.held_bytes = 0
        self._take_back()

    def _take_back(self) -> None:
        if self._shared is not _NOTHING:
            if len(self._spare) < _SPARE_BUFFERS:
                self._spare.append(self._shared)
            self._shared = _NOTHING

    def received(self, count: int) -> list[memoryview]:
        """Process `count` bytes in `buffer()`; returns the frames that are now complete."""
        if self._frame is not None:
            self._frame_end += count
            if self._frame_end < len(self._frame):
                self.held_bytes = LENGTH_SIZE + self._frame_end
                return []
            frame, self._frame = self._frame, None
            self.held_bytes = 0
            return [frame]
        self._end = end = self._end + count
        shared = self._shared
        if not self._start and end > LENGTH_SIZE and length_at(shared, 0) == end - LENGTH_SIZE <= self._max_bytes:
            # One frame and nothing else: always so for a client that waits for each answer.
            frame = copied(shared, LENGTH_SIZE, end)
            self._end = self.held_bytes = 0
            self._take_back()
            return [frame]
        return self._cut()

    def _cut(self) -> list[memoryview]:
        frames: list[memoryview] = []
        shared, received = self._shared, self._end
        while received - self._start >= LENGTH_SIZE:
            length = length_at(shared, self._start)
            if not 0 <= length <= self._max_bytes:
                raise MalformedMessageError(
                    f"a frame of {length} bytes is announced, at most {self._max_bytes} are accepted"
                )
            start = self._start + LENGTH_SIZE
            end = start + length
            if end > received:
                self._make_room(start, length)
                break
            frames.append(copied(shared, start, end))
            self._start = end
        if self._start == self._end:
            self._start = self._end = 0
            self.held_bytes = 0 if self._frame is None else LENGTH_SIZE + self._frame_end
            self._take_back()
        else:
            self._put_aside()
        return frames

    def _put_aside(self) -> None:
        """Put the beginning of a small frame aside."""
        held = self._end - self._start
        if held <= _FEW_BYTES:
            self._rest = bytes(self._shared[self._start : self._end])
            self._start = self._end = 0
            self.held_bytes = held
            self._take_back()
        else:
            if self._end == len(self._shared):
                self._move_to_front()
            self.held_bytes = len(self._shared)

    def _make_room(self, start: int, length: int) -> None:
        """Prepare for the rest of a frame that has only begun."""
        if length + LENGTH_SIZE <= len(self._shared):
            if start + length > len(self._shared):
                self._move_to_front()
            return
        held = self._end - start
        self._frame = self._rooms.large(length)
        self._frame[:held] = self._shared[start : self._end]
        self._frame_end = held
        self._start = self._end = 0

    def _move_to_front(self) -> None:
        held = bytes(self._shared[self._start : self._end])
        self._shared[: len(held)] = held
        self._start, self._end = 0, len(held)
