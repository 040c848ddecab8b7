"""The dialogue with a push client: which frames it may send when, in which order, and who may be silent how long.

Rule 1: a frame that may not come now ends the connection; nothing of it takes effect.
Rule 2: ids of a client's frames rise. 0 is unsolicited, and an ACK has the id of the frame that it answers.
Rule 3: any byte is a sign of life: on a slow link, a long frame takes its time. While nothing is read from a client,
        because its frames wait for the disk or for another broker, it cannot be silent.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, auto

from qanat.model.error_codes import ErrorCode
from qanat.model.errors import QanatError
from qanat.wire.push.frames import FrameType

HEARTBEAT_MS = 10_000
DEAD_MS = 30_000
ACK_TIMEOUT_MS = 30_000


class WrongFrameError(QanatError):
    """A frame that may not come now; `reason` is what DISCONNECT says."""

    code = ErrorCode.INVALID_REQUEST

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Stage(IntEnum):
    """How far a connection is."""

    UNAUTHENTICATED = auto()
    OPEN = auto()
    """It may subscribe, or produce."""
    SUBSCRIBED = auto()
    OVER = auto()


_ALLOWED = {
    Stage.UNAUTHENTICATED: frozenset({FrameType.HEARTBEAT, FrameType.DISCONNECT}),
    Stage.OPEN: frozenset({FrameType.HEARTBEAT, FrameType.SUBSCRIBE, FrameType.DATA, FrameType.DISCONNECT}),
    Stage.SUBSCRIBED: frozenset({FrameType.HEARTBEAT, FrameType.ACK, FrameType.COMMIT_OFFSET, FrameType.DISCONNECT}),
    Stage.OVER: frozenset[FrameType](),
}


@dataclass(frozen=True, slots=True)
class SilenceTimeouts:
    """How long either side may be silent."""

    heartbeat_ms: int = HEARTBEAT_MS
    dead_ms: int = DEAD_MS


class PushDialogue:
    """One connection, as the broker sees it."""

    __slots__ = ("_last_id", "_timeouts", "heard_ms", "is_greeted", "is_listening", "said_ms", "stage")

    def __init__(self, now_ms: int, *, must_authenticate: bool, timeouts: SilenceTimeouts | None = None) -> None:
        self.stage = Stage.UNAUTHENTICATED if must_authenticate else Stage.OPEN
        self._timeouts = timeouts or SilenceTimeouts()
        self._last_id = 0
        self.is_greeted = False
        """Whether the first frame has come, which names the version."""
        self.heard_ms = now_ms
        self.is_listening = True
        self.said_ms = now_ms

    def listen(self, *, is_listening: bool, now_ms: int) -> None:
        """Begin or stop to read what the client says; its silence counts from when we listen again."""
        if is_listening:
            self.heard_ms = now_ms
        self.is_listening = is_listening

    def check(self, frame_type: int, frame_id: int) -> None:
        """Raise `WrongFrameError` where a frame may not come now."""
        if frame_type not in _ALLOWED[self.stage]:
            raise self._refusal(frame_type)
        if not self.is_greeted:
            if frame_type == FrameType.DATA:
                raise WrongFrameError("wrong-order", "the first frame is SUBSCRIBE or HEARTBEAT, not DATA")
            self.is_greeted = True
        if frame_type == FrameType.ACK or frame_id == 0:
            return
        if frame_id <= self._last_id:
            raise WrongFrameError("wrong-order", f"frame {frame_id} follows frame {self._last_id}: ids rise")
        self._last_id = frame_id

    def _refusal(self, frame_type: int) -> WrongFrameError:
        name = FrameType(frame_type).name
        if self.stage is Stage.UNAUTHENTICATED:
            return WrongFrameError("not-authenticated", f"{name} before authentication; send HEARTBEAT with a token")
        return WrongFrameError("wrong-order", f"{name} cannot come while the connection is {self.stage.name.lower()}")

    def authenticated(self) -> None:
        if self.stage is Stage.UNAUTHENTICATED:
            self.stage = Stage.OPEN

    def subscribed(self) -> None:
        assert self.stage is Stage.OPEN, "one subscription per connection"
        self.stage = Stage.SUBSCRIBED

    def is_dead(self, now_ms: int) -> bool:
        """Whether the client has been silent for too long."""
        return self.is_listening and now_ms - self.heard_ms >= self._timeouts.dead_ms

    @property
    def due_ms(self) -> int:
        """When one of the next two may be true, if nothing is heard or said before."""
        heartbeat_ms = self.said_ms + self._timeouts.heartbeat_ms
        return min(self.heard_ms + self._timeouts.dead_ms, heartbeat_ms) if self.is_listening else heartbeat_ms

    def is_heartbeat_due(self, now_ms: int) -> bool:
        """Whether the broker has been silent for so long that the client might take it for dead."""
        return now_ms - self.said_ms >= self._timeouts.heartbeat_ms
