# cython: language_level=3, annotation_typing=False
"""The fast path of a connection: one frame in a read, nothing outstanding, answered at once.

A client that waits for each answer takes it with every request. `KafkaConnection` extends it and does everything else.
Compiled and interpreted like `log.append_state`.
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
"""Most bytes read from a client that could not be paused before the limit was reached."""


class FastReplies:
    """Receives frames, and answers a single one."""

    def __init__(self, handle: Callable[[memoryview, Any], Any], limits: ConnectionLimits) -> None:
        self._handle = handle
        self._limits = limits
        self._frames = FrameReader(limits.max_request_bytes, limits.rooms)
        self._transport: asyncio.Transport | None = None
        self._begun_bytes = 0
        """Memory of an incomplete frame, as noted in the limits."""
        self._unanswered_bytes = 0
        self._can_write = True

    def get_buffer(self, sizehint: int) -> memoryview:
        buffer = self._frames.buffer()
        limits = self._limits
        if limits.inflight_bytes >= limits.max_inflight_bytes and self._is_limited():
            return buffer[:TRICKLE_BYTES]
        return buffer

    def buffer_updated(self, nbytes: int) -> None:
        try:
            frames = self._frames.received(nbytes)
        except QanatError as fault:
            self._abort(fault)
            return
        held = self._frames.held_bytes
        # No earlier request is outstanding.
        is_idle = not self._unanswered_bytes and not self._begun_bytes and self._can_write
        limits = self._limits
        is_full = limits.inflight_bytes >= limits.max_inflight_bytes
        if is_idle and not held and len(frames) == 1 and self._transport is not None and not is_full:
            self._answer_single(frames[0])
        else:
            self._received(frames, held)

    def _answer_single(self, frame: memoryview) -> None:
        """Answer a single frame; one that is answered at once never counts as unanswered."""
        try:
            outcome = self._handle(frame, self)
        except Exception as fault:  # noqa: BLE001 - a bug ends this connection, not the broker
            self._abort(fault)
            return
        if isinstance(outcome, list):
            if self._transport is not None:
                self._transport.writelines(outcome)
        else:
            self._defer(frame, outcome)

    def _is_limited(self) -> bool:
        """Whether to read little from this client while the limit is reached."""
        raise NotImplementedError

    def _received(self, frames: list[memoryview], held: int) -> None:
        """Take in several frames, or none; `held` bytes are of an incomplete one."""
        raise NotImplementedError

    def _defer(self, frame: memoryview, outcome: Any) -> None:
        """Keep a place for the answer to a single frame, which comes later."""
        raise NotImplementedError

    def _abort(self, fault: BaseException) -> None:
        """Close at once: what the client sends after this can be neither decoded nor trusted."""
        raise NotImplementedError
