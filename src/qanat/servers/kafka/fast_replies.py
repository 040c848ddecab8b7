# cython: language_level=3, annotation_typing=False
"""The way of a client that waits for each answer: one frame in a read, nothing else in hand, an answer at once.

`KafkaConnection` is made on this, and does whatever is not so. Compiled and interpreted like `log.append_state`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qanat.model.errors import QanatError
from qanat.wire.frames import FrameReader

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from typing import Any

    from qanat.servers.kafka.connection_limits import ConnectionLimits

TRICKLE_BYTES = 4096
"""What is still taken of one who could not be stopped before the bound was reached."""


class FastReplies:
    """Receives frames, and answers one that is alone."""

    def __init__(self, handle: Callable[[memoryview, Any], Any], limits: ConnectionLimits) -> None:
        self._handle = handle
        self._limits = limits
        self._frames = FrameReader(limits.max_request_bytes, limits.rooms)
        self._transport: asyncio.Transport | None = None
        self._begun_bytes = 0
        """Memory of a frame that is not whole, as it was told to the limits."""
        self._unanswered_bytes = 0
        self._can_write = True

    def get_buffer(self, sizehint: int) -> memoryview:
        buffer = self._frames.buffer()
        limits = self._limits
        if limits.inflight_bytes >= limits.max_inflight_bytes and self._is_held_back():
            return buffer[:TRICKLE_BYTES]
        return buffer

    def buffer_updated(self, nbytes: int) -> None:
        try:
            frames = self._frames.received(nbytes)
        except QanatError as fault:
            self._abort(fault)
            return
        held = self._frames.held_bytes
        # Whether nothing of what came before is still in hand.
        is_idle = not self._unanswered_bytes and not self._begun_bytes and self._can_write
        limits = self._limits
        is_full = limits.inflight_bytes >= limits.max_inflight_bytes
        if is_idle and not held and len(frames) == 1 and self._transport is not None and not is_full:
            self._answer_alone(frames[0])
        else:
            self._received(frames, held)

    def _answer_alone(self, frame: memoryview) -> None:
        """What is answered at once is never counted as waiting."""
        try:
            outcome = self._handle(frame, self)
        except Exception as fault:  # noqa: BLE001 - a bug ends this connection, not the broker
            self._abort(fault)
            return
        if isinstance(outcome, list):
            if self._transport is not None:
                self._transport.writelines(outcome)
        else:
            self._keep_waiting(frame, outcome)

    def _is_held_back(self) -> bool:
        """Whether little is taken of this one, where all together hold too much."""
        raise NotImplementedError

    def _received(self, frames: list[memoryview], held: int) -> None:
        """Frames that are not alone, or none at all; `held` bytes are of one that is not whole."""
        raise NotImplementedError

    def _keep_waiting(self, frame: memoryview, outcome: Any) -> None:
        """A frame that was alone is not answered at once."""
        raise NotImplementedError

    def _abort(self, fault: BaseException) -> None:
        """Close at once: after this, nothing that the client sends can be understood or trusted."""
        raise NotImplementedError
