"""Frame buffers: shared buffers for small frames, a room of its own for each large one.

Rooms of the usual size are reused once no view of them is left: in fresh memory, page faults take a quarter of a
produce request's time. That is detected by counting references, so this is not compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from sys import getrefcount
from typing import Any, TypeAlias

_ROOM_BYTES = 2 * 1024 * 1024
"""Twice the size of a batch, unless its topic allows more."""
_ROOMS_KEPT = 4
_UNUSED_REFERENCES = 3
"""References to a room without views: the list of rooms, the local variable, and `getrefcount` itself."""

Room: TypeAlias = Any
"""Anything that supports a writable memoryview: a bytearray, a map."""


class FrameBuffers:
    """The frame buffers of some connections, all of them on one thread."""

    __slots__ = ("_make", "_rooms", "spare")

    def __init__(self, make: Callable[[int], Room] = bytearray) -> None:
        self._make = make
        self._rooms: list[Room] = []
        self.spare: list[memoryview] = []
        """Shared buffers that are not in use; `FrameReader` takes them and gives them back."""

    def large(self, size: int) -> memoryview:
        """Room for a frame that is too large for a shared buffer."""
        if size > _ROOM_BYTES:
            return memoryview(self._make(size))
        for room in self._rooms:
            if getrefcount(room) == _UNUSED_REFERENCES:
                return memoryview(room)[:size]
        room = self._make(_ROOM_BYTES)
        if len(self._rooms) < _ROOMS_KEPT:
            self._rooms.append(room)
        return memoryview(room)[:size]
