"""What all connections of a listener may hold together, and who goes on when all of it is taken.

A request counts from its first byte in memory to its answer, so what has come of a frame that is not whole counts, too.
When the bound is reached, nobody is read from any more until something is answered. There is one catch: if
all of it were taken by halves of frames, nothing would ever be answered. Therefore:

Rule 1: of those who have sent part of a frame, the ones who lack least are read from to its end: as many as together
        lack no more than one largest request, and not while that much is whole and waits for its answer. So there is
        always somebody who goes on, the bound is passed by no more than two largest requests, and who has sent much
        and then stopped does not keep small requests of others waiting. Who has begun nothing is read from as well,
        a little at a time: small requests are answered as always.
Rule 2: who is read from while others wait must keep up. After a grace, his frame has to come at `SLOWEST_BYTES_PER_S`,
        or the connection is closed, which gives back what it holds. Where nobody waits, anybody may be slow.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from qanat.model.errors import QanatError, SlowSenderError
from qanat.wire.frame_buffers import FrameBuffers

GRACE_S = 10.0
SLOWEST_BYTES_PER_S = 1024 * 1024
LOOK_S = 1.0
CHOOSE_S = 0.01


class Sender(Protocol):
    """A connection, as far as it is regulated here."""

    @property
    def begun_bytes(self) -> int:
        """Bytes that have come of a frame that is not whole."""

    @property
    def missing_bytes(self) -> int:
        """Memory that the rest of that frame will take."""

    @property
    def is_reading(self) -> bool: ...

    def regulate(self) -> None:
        """Read or do not read, as the bounds say."""

    def cut_off(self, fault: QanatError) -> None:
        """Close at once."""


@dataclass(slots=True)
class ConnectionLimits:
    """The bounds, and what is in use of them. Belongs to one event loop."""

    max_request_bytes: int
    max_unanswered: int
    max_inflight_bytes: int
    max_connection_bytes: int = 2**63
    """Of one connection's unanswered requests."""
    max_unsent_bytes: int = 64 * 1024
    """Of one connection's answers, before it is read from no more."""
    make_room: Callable[[int], object] = bytearray
    grace_s: float = GRACE_S
    look_s: float = LOOK_S
    inflight_bytes: int = 0
    starved: dict[Sender, None] = field(default_factory=dict)
    """Who is not read from because all together hold too much, longest waiting first."""
    rooms: FrameBuffers = field(init=False)
    _half_bytes: int = 0
    """What is held of frames that are not whole."""
    _halves: dict[Sender, None] = field(default_factory=dict)
    """Who has sent part of a frame, longest ago first."""
    _preferred: dict[Sender, int] = field(default_factory=dict)
    """Who is read from all the same (rule 1), and how much was missing then."""
    _watched: dict[Sender, tuple[float, int]] = field(default_factory=dict)
    """Since when somebody is read from while others wait, and how much of his frame had come by then."""
    _promised_bytes: int = 0
    _timer: asyncio.TimerHandle | None = None
    _choosing: asyncio.TimerHandle | None = None

    def __post_init__(self) -> None:
        self.rooms = FrameBuffers(self.make_room)

    @property
    def is_full(self) -> bool:
        return self.inflight_bytes >= self.max_inflight_bytes

    def release(self, count: int) -> None:
        """Give bytes back, and let those who waited for them read again."""
        self.inflight_bytes -= count
        while self.starved and self.inflight_bytes < self.max_inflight_bytes:
            sender = next(iter(self.starved))
            del self.starved[sender]
            sender.regulate()

    def note_half(self, sender: Sender, before: int, held: int, *, is_another: bool) -> None:
        """What a sender holds of a frame that is not whole has changed; `is_another` where it is the next frame."""
        self._half_bytes += held - before
        if is_another or not held:
            self._halves.pop(sender, None)
            self._watched.pop(sender, None)
            self._take_back(sender)
        if held:
            self._halves[sender] = None
        if held < before:
            self.release(before - held)
        else:
            self.inflight_bytes += held - before

    def may_finish(self, sender: Sender) -> bool:
        """Whether all that one sends is taken although there is no room: his frame takes no more, or by rule 1."""
        return sender in self._halves and (sender in self._preferred or not sender.missing_bytes)

    def may_go_on(self, sender: Sender) -> bool:
        """Whether one is read from although there is no room."""
        return self.may_finish(sender) or (sender not in self._halves and self._is_held_by_halves)

    @property
    def _is_held_by_halves(self) -> bool:
        """Whether what is whole is little, so that room does not come by waiting for answers."""
        return self.inflight_bytes - self._half_bytes < min(self.max_request_bytes, self.max_inflight_bytes // 2)

    def starve(self, sender: Sender) -> None:
        """One would read and may not."""
        self.starved[sender] = None
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self.look_s, self._look)
        if sender in self._halves and self._is_held_by_halves:
            self._prefer(sender)

    def _prefer(self, sender: Sender) -> bool:
        """Let one go on to the end of his frame, if that is not too much (rule 1)."""
        missing = sender.missing_bytes
        if self._preferred and self._promised_bytes + missing > self.max_request_bytes:
            return False
        self._preferred[sender] = missing
        self._promised_bytes += missing
        del self.starved[sender]
        sender.regulate()
        return True

    def _take_back(self, sender: Sender) -> None:
        """One who was preferred is done, or gone: others may be, a little later and all at once."""
        if sender not in self._preferred:
            return
        self._promised_bytes -= self._preferred.pop(sender)
        if self._choosing is None and self.starved:
            self._choosing = asyncio.get_running_loop().call_later(CHOOSE_S, self._choose)

    def _choose(self) -> None:
        self._choosing = None
        if not (self.is_full and self._is_held_by_halves):
            return
        for sender in [one for one in self.starved if one not in self._halves]:
            del self.starved[sender]
            sender.regulate()
        for sender in sorted(self.starved, key=lambda one: one.missing_bytes):
            if not self._prefer(sender):
                return

    def forget(self, sender: Sender, held: int) -> None:
        """A connection is gone, and with it all that it held; of halves it has told before."""
        self.starved.pop(sender, None)
        self.release(held)

    def _look(self) -> None:
        """Close who keeps others waiting (rule 2)."""
        self._timer = None
        loop = asyncio.get_running_loop()
        if not self.starved:
            self._watched.clear()
            return
        self._timer = loop.call_later(self.look_s, self._look)
        self._choose()
        for sender in list(self._halves):
            if not sender.is_reading:
                self._watched.pop(sender, None)
                continue
            since, had = self._watched.setdefault(sender, (loop.time(), sender.begun_bytes))
            due_s = loop.time() - since - self.grace_s
            came = sender.begun_bytes - had
            if came < due_s * SLOWEST_BYTES_PER_S:
                sender.cut_off(
                    SlowSenderError(
                        f"{came} bytes of a request came in {due_s + self.grace_s:.0f} s while others waited for its "
                        f"memory; after {self.grace_s:.0f} s, at least {SLOWEST_BYTES_PER_S} a second must come"
                    )
                )
