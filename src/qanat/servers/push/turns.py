"""When connections have their turn: a wheel of times at which one may be due, and the late pass of slow subscribers.

Of ten thousand idle connections each is looked at once in ten seconds, when its heartbeat is due, and not with every
tick. Subscribers that owe answers are served together, a little at a time, so that quick ones wait for one of them at
most.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Generic, TypeVar

Member = TypeVar("Member")

SLOT_MS = 500
LATE_S = 0.025
"""Between the late passes: records that are written meanwhile leave together."""
_AT_ONCE_S = 0.0001
"""How long a late pass holds the event loop."""
_PAUSE_S = 0.005
"""Then others have it: for so long, or until the next records have left for quick subscribers."""
_LEAST_PAUSE_S = 0.0008


class Wheel(Generic[Member]):
    """Members by the slot of time in which each is due next; a member may move, and is found where it was put last."""

    def __init__(self) -> None:
        self._slots: dict[int, dict[Member, None]] = {}
        self._slot_of: dict[Member, int] = {}
        self._next_slot = 0

    def put(self, member: Member, due_ms: int) -> None:
        """Return it by `take` at this time or a slot later. A member that has a place is moved."""
        slot = max(due_ms // SLOT_MS + 1, self._next_slot)
        if self._slot_of.get(member) != slot:
            self.discard(member)
            self._slot_of[member] = slot
            self._slots.setdefault(slot, {})[member] = None

    def discard(self, member: Member) -> None:
        slot = self._slot_of.pop(member, None)
        if slot is not None:
            members = self._slots[slot]
            del members[member]
            if not members:
                del self._slots[slot]

    def take(self, now_ms: int) -> list[Member]:
        """The members that are due; each must be put again."""
        found: list[Member] = []
        now_slot = now_ms // SLOT_MS
        for slot in sorted(one for one in self._slots if one <= now_slot):
            found.extend(self._slots.pop(slot))
        for member in found:
            del self._slot_of[member]
        self._next_slot = now_slot + 1
        return found

    def __len__(self) -> int:
        return len(self._slot_of)


class LatePass(Generic[Member]):
    """Serves members together, some time after the first of them came; each once in a pass."""

    def __init__(self, serve: Callable[[Member], None]) -> None:
        self._serve = serve
        self._waiting: dict[Member, None] = {}
        self._turn: deque[Member] = deque()
        self._handle: asyncio.Handle | None = None
        self._is_next = False
        """Whether it goes on in the next turn of the event loop."""
        self._next_s = 0.0

    def add(self, member: Member) -> None:
        """Serve it in the next pass."""
        self._waiting[member] = None
        if self._handle is None:
            self._handle = asyncio.get_running_loop().call_later(LATE_S, self._begin)

    def discard(self, member: Member) -> None:
        self._waiting.pop(member, None)

    def close(self) -> None:
        self._waiting.clear()
        self._turn.clear()
        if self._handle is not None:
            self._handle.cancel()

    def records_left(self) -> None:
        """Records have just left for a quick subscriber: the time until the next ones is as long as it can be."""
        if self._turn and not self._is_next and perf_counter() >= self._next_s:
            if self._handle is not None:
                self._handle.cancel()
            self._is_next = True
            self._handle = asyncio.get_running_loop().call_soon(self._go_on)

    def _begin(self) -> None:
        self._turn.extend(self._waiting)
        self._waiting.clear()
        self._go_on()

    def _go_on(self) -> None:
        """Serve one at least, then let others have the event loop."""
        until = perf_counter() + _AT_ONCE_S
        self._is_next = True
        while self._turn:
            self._serve(self._turn.popleft())
            if perf_counter() >= until:
                break
        self._is_next = False
        self._next_s = perf_counter() + _LEAST_PAUSE_S
        loop = asyncio.get_running_loop()
        if self._turn:
            self._handle = loop.call_later(_PAUSE_S, self._go_on)
        else:
            self._handle = loop.call_later(LATE_S, self._begin) if self._waiting else None
