"""Kafka's framing: a length of four bytes, then that many bytes. Bytes in, frames out.

The transport writes straight into `buffer()`. Small frames are copied out of
a shared buffer; a frame that does not fit gets a buffer of its own size, so a
large produce request is received where it will be read, once.

Rule 1: a length is checked before a byte is allocated for it.
Rule 2: a frame handed out is its taker's alone, to read and to write.
"""

from __future__ import annotations

from struct import Struct

from qanat.model.errors import MalformedMessageError

_LENGTH = Struct(">i")
LENGTH_SIZE = _LENGTH.size
_SHARED_BYTES = 64 * 1024


class FrameReader:
    """Cuts one connection's bytes into frames."""

    __slots__ = ("_end", "_frame", "_frame_end", "_max_bytes", "_shared", "_start")

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._shared = memoryview(bytearray(_SHARED_BYTES))
        self._start = 0
        self._end = 0
        self._frame: memoryview | None = None
        """A frame too large for the shared buffer, being received."""
        self._frame_end = 0

    def limit(self, max_bytes: int) -> None:
        """Change the largest frame accepted, as when a client has proven who it is."""
        self._max_bytes = max_bytes

    @property
    def is_idle(self) -> bool:
        """Whether no frame has begun."""
        return self._frame is None and self._start == self._end

    def buffer(self) -> memoryview:
        """Where the next bytes go; never empty."""
        if self._frame is not None:
            return self._frame[self._frame_end :]
        return self._shared[self._end :]

    def received(self, count: int) -> list[memoryview]:
        """Take note of `count` bytes in `buffer()`; returns the frames that are complete with them."""
        if self._frame is not None:
            self._frame_end += count
            if self._frame_end < len(self._frame):
                return []
            frame, self._frame = self._frame, None
            return [frame]
        self._end += count
        return self._cut()

    def _cut(self) -> list[memoryview]:
        frames: list[memoryview] = []
        while self._end - self._start >= LENGTH_SIZE:
            length: int = _LENGTH.unpack_from(self._shared, self._start)[0]
            if not 0 <= length <= self._max_bytes:
                raise MalformedMessageError(
                    f"a frame of {length} bytes is announced, at most {self._max_bytes} are accepted"
                )
            start, end = self._start + LENGTH_SIZE, self._start + LENGTH_SIZE + length
            if end > self._end:
                self._make_room(start, length)
                break
            frames.append(memoryview(bytearray(self._shared[start:end])))
            self._start = end
        if self._start == self._end:
            self._start = self._end = 0
        elif self._frame is None and self._end == len(self._shared):
            self._move_to_front()
        return frames

    def _make_room(self, start: int, length: int) -> None:
        """Prepare for the rest of a frame that has only begun."""
        if length + LENGTH_SIZE <= len(self._shared):
            if start + length > len(self._shared):
                self._move_to_front()
            return
        held = self._end - start
        self._frame = memoryview(bytearray(length))
        self._frame[:held] = self._shared[start : self._end]
        self._frame_end = held
        self._start = self._end = 0

    def _move_to_front(self) -> None:
        held = bytes(self._shared[self._start : self._end])
        self._shared[: len(held)] = held
        self._start, self._end = 0, len(held)
