"""Where frames are received: buffers on loan for small ones, rooms of their own for large ones.

Rooms of the usual size are used again once no view of them is left: in fresh memory, a quarter of a produce request's
time goes into page faults. Who looks after that counts references, so this is not compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from sys import getrefcount
from typing import Any, TypeAlias

_ROOM_BYTES = 2 * 1024 * 1024
"""Twice what a batch may have unless its topic says otherwise."""
_ROOMS_KEPT = 4
_UNUSED_REFERENCES = 3
"""Of a room that no view keeps: by the list of rooms, by whoever looks at it, and by `getrefcount` itself."""

Room: TypeAlias = Any
"""Whatever a memoryview may be taken of and written through: a bytearray, a map."""


class FrameRooms:
    """Where the frames of some connections are received, all of them on one thread."""

    __slots__ = ("_make", "_rooms", "spare")

    def __init__(self, make: Callable[[int], Room] = bytearray) -> None:
        self._make = make
        self._rooms: list[Room] = []
        self.spare: list[memoryview] = []
        """Buffers that are not on loan; `FrameReader` takes them and gives them back."""

    def large(self, size: int) -> memoryview:
        """Room for a frame that is too large for a buffer on loan."""
        if size > _ROOM_BYTES:
            return memoryview(self._make(size))
        for room in self._rooms:
            if getrefcount(room) == _UNUSED_REFERENCES:
                return memoryview(room)[:size]
        room = self._make(_ROOM_BYTES)
        if len(self._rooms) < _ROOMS_KEPT:
            self._rooms.append(room)
        return memoryview(room)[:size]
