"""The memory that all connections of a listener may hold for requests, and which of them go on when it is full.

A request counts from its first byte in memory to its answer; a part of an incomplete frame counts as well. When the
limit is reached, reading stops until an answer releases memory. If incomplete frames held all of it, no answer would
ever come. Therefore:

Rule 1: of the senders of incomplete frames, those that lack least are read to the end of their frame: as many as
        together lack no more than one largest request, and not while that much is complete and waits for its answer.
        So one sender always goes on, the limit is exceeded by no more than two largest requests, and a sender that
        stopped in the middle of much does not block the small requests of others. A sender that has begun nothing
        is read as well, a little at a time: small requests are answered as always.
Rule 2: a sender that is read while others wait must keep up. After a grace period its frame has to arrive at
        `SLOWEST_BYTES_PER_S`, or the connection is closed and its memory released. Where none waits, any may be slow.
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
    """A connection, as far as it is limited here."""

    @property
    def begun_bytes(self) -> int:
        """Bytes received of an incomplete frame."""

    @property
    def missing_bytes(self) -> int:
        """Memory that the rest of that frame will take."""

    @property
    def is_reading(self) -> bool: ...

    def regulate(self) -> None:
        """Read or pause reading, as the limits say."""

    def cut_off(self, fault: QanatError) -> None:
        """Close at once."""


@dataclass(slots=True)
class ConnectionLimits:
    """The limits, and how much of them is in use. Belongs to one event loop."""

    max_request_bytes: int
    max_unanswered: int
    max_inflight_bytes: int
    max_connection_bytes: int = 2**63
    """Largest unanswered requests of one connection together."""
    max_unsent_bytes: int = 64 * 1024
    """Largest unsent answers of one connection; reading stops above it."""
    make_room: Callable[[int], object] = bytearray
    grace_s: float = GRACE_S
    look_s: float = LOOK_S
    inflight_bytes: int = 0
    starved: dict[Sender, None] = field(default_factory=dict)
    """Senders whose reading is paused because the limit is reached, longest waiting first."""
    rooms: FrameBuffers = field(init=False)
    _half_bytes: int = 0
    """Memory of incomplete frames."""
    _halves: dict[Sender, None] = field(default_factory=dict)
    """Senders of incomplete frames, longest ago first."""
    _preferred: dict[Sender, int] = field(default_factory=dict)
    """Senders that are read all the same (rule 1), with what was missing when they were chosen."""
    _watched: dict[Sender, tuple[float, int]] = field(default_factory=dict)
    """Since when a sender is read while others wait, and how much of its frame had arrived by then."""
    _promised_bytes: int = 0
    _timer: asyncio.TimerHandle | None = None
    _choosing: asyncio.TimerHandle | None = None

    def __post_init__(self) -> None:
        self.rooms = FrameBuffers(self.make_room)

    @property
    def is_full(self) -> bool:
        return self.inflight_bytes >= self.max_inflight_bytes

    def release(self, count: int) -> None:
        """Release bytes; the senders that waited for them read again."""
        self.inflight_bytes -= count
        while self.starved and self.inflight_bytes < self.max_inflight_bytes:
            sender = next(iter(self.starved))
            del self.starved[sender]
            sender.regulate()

    def note_half(self, sender: Sender, before: int, held: int, *, is_another: bool) -> None:
        """Note that a sender's incomplete frame has grown or ended; `is_another` where it is the next frame."""
        self._half_bytes += held - before
        if is_another or not held:
            self._halves.pop(sender, None)
            self._watched.pop(sender, None)
            self._end_preference(sender)
        if held:
            self._halves[sender] = None
        if held < before:
            self.release(before - held)
        else:
            self.inflight_bytes += held - before

    def may_finish(self, sender: Sender) -> bool:
        """Whether a sender may finish its frame over the limit: it takes no more memory, or by rule 1."""
        return sender in self._halves and (sender in self._preferred or not sender.missing_bytes)

    def may_read(self, sender: Sender) -> bool:
        """Whether a sender is read over the limit."""
        return self.may_finish(sender) or (sender not in self._halves and self._is_held_by_halves)

    @property
    def _is_held_by_halves(self) -> bool:
        """Whether incomplete frames hold nearly all of it, so that answers will not release much."""
        return self.inflight_bytes - self._half_bytes < min(self.max_request_bytes, self.max_inflight_bytes // 2)

    def starve(self, sender: Sender) -> None:
        """Pause a sender that would read."""
        self.starved[sender] = None
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self.look_s, self._check_senders)
        if sender in self._halves and self._is_held_by_halves:
            self._prefer(sender)

    def _prefer(self, sender: Sender) -> bool:
        """Let a sender go on to the end of its frame, if that is not too much (rule 1)."""
        missing = sender.missing_bytes
        if self._preferred and self._promised_bytes + missing > self.max_request_bytes:
            return False
        self._preferred[sender] = missing
        self._promised_bytes += missing
        del self.starved[sender]
        sender.regulate()
        return True

    def _end_preference(self, sender: Sender) -> None:
        """End the preference of a sender that is done or gone; the next are chosen a little later, all at once."""
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
        """Forget a closed connection and release what it held; its incomplete frame is noted before."""
        self.starved.pop(sender, None)
        self.release(held)

    def _check_senders(self) -> None:
        """Close senders that are too slow while others wait (rule 2)."""
        self._timer = None
        loop = asyncio.get_running_loop()
        if not self.starved:
            self._watched.clear()
            return
        self._timer = loop.call_later(self.look_s, self._check_senders)
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
