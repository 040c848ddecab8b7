"""Whether subscribers may still read: all of them are asked again soon after the rules have changed.

The revision of the rules is looked at ten times a second; a change goes through all subscribers, a few at a time. The
built-in authorizer has its rules from the metadata image, which follows the store. An authorizer without a revision may
change its mind at any time: its subscribers are asked twice a second.

Rule: between a change of the rules at this broker and the end of the last subscription that they end, there are at most
      `LOOK_S + SPREAD_S`, with any number of subscribers: 0.3 s.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Generic, TypeVar

from qanat.security.authorization import RevisedAuthorizer

if TYPE_CHECKING:
    from qanat.security.authorization import Authorizer

Member = TypeVar("Member", bound=Hashable)

LOOK_S = 0.1
SPREAD_S = 0.2
_AT_ONCE = 200
"""Asked in one turn of the event loop, which takes a millisecond."""
_PAUSE_S = 0.004
_LOOKS_WITHOUT_REVISION = 5


class RightsWatch(Generic[Member]):
    """Subscribers that may lose a right, each with the authorizer that decides about it."""

    def __init__(self, ask: Callable[[Member], None]) -> None:
        """`ask` ends a subscription that may not go on."""
        self._ask = ask
        self._members: dict[Member, Authorizer] = {}
        self._revisions: dict[int, tuple[Authorizer, int]] = {}
        """Of the rules that all members were asked by, or are about to be; by the id of the authorizer."""
        self._turn: deque[Member] = deque()
        self._looks = 0
        self._pause_s = _PAUSE_S
        self._timer: asyncio.TimerHandle | None = None
        self._step: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._members)

    def add(self, member: Member, authorizer: Authorizer) -> None:
        """Watch a subscriber; it is asked soon, as rules may have changed since it was let in."""
        self._members[member] = authorizer
        self._revisions.setdefault(id(authorizer), (authorizer, _revision(authorizer)))
        self._turn.append(member)
        if self._step is None:
            self._step = asyncio.get_running_loop().call_later(LOOK_S, self._go_on)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._look)

    def discard(self, member: Member) -> None:
        self._members.pop(member, None)

    def close(self) -> None:
        self._members.clear()
        self._turn.clear()
        for handle in (self._timer, self._step):
            if handle is not None:
                handle.cancel()
        self._timer = self._step = None

    def _look(self) -> None:
        self._timer = None
        if not self._members:
            self._revisions.clear()
            return
        self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._look)
        self._looks += 1
        has_changed = False
        for authorizer, before in list(self._revisions.values()):
            now = _revision(authorizer)
            self._revisions[id(authorizer)] = authorizer, now
            has_changed |= before != now or (now < 0 and self._looks % _LOOKS_WITHOUT_REVISION == 0)
        if has_changed:
            self._ask_all()

    def _ask_all(self) -> None:
        """Those first that the last change has not reached yet: frequent changes keep nobody from a turn."""
        self._turn = deque(dict.fromkeys([*self._turn, *self._members]))
        self._pause_s = min(_PAUSE_S, SPREAD_S / -(-len(self._turn) // _AT_ONCE))
        if self._step is not None:
            self._step.cancel()
        self._go_on()

    def _go_on(self) -> None:
        for _ in range(min(_AT_ONCE, len(self._turn))):
            member = self._turn.popleft()
            if member in self._members:
                self._ask(member)
        loop = asyncio.get_running_loop()
        self._step = loop.call_later(self._pause_s, self._go_on) if self._turn else None


def _revision(authorizer: Authorizer) -> int:
    return authorizer.revision if isinstance(authorizer, RevisedAuthorizer) else -1
