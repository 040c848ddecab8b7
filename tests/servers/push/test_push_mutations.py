"""Damaged push frames, by a seed, through what reads them in the broker: every one is read, or refused in one sentence.

No socket is between: `make fuzz-push` makes ten million of them in some minutes.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from typing import Any

from tests.servers.push.hostile_frames import HostileClients
from tests.servers.push.test_push_fuzz import FRAMES, chosen_seed

from qanat.edge.push_dialogue import PushDialogue, WrongFrameError
from qanat.model.errors import MalformedMessageError
from qanat.wire.push.control import (
    Ack,
    CommitOffset,
    Disconnect,
    Heartbeat,
    Login,
    Ready,
    Reset,
    Subscribe,
    decode_control,
)
from qanat.wire.push.data import PushedBatches, PushedRecord, decode_data, encode_record
from qanat.wire.push.frames import (
    HEADER_SIZE,
    UNAUTHENTICATED_BYTES,
    UNAUTHENTICATED_FRAMES,
    FrameType,
    PushFrame,
    PushFrameReader,
)
from qanat.wire.push.plain import decode_plain

_KINDS: dict[FrameType, Any] = {
    FrameType.ACK: Ack,
    FrameType.SUBSCRIBE: Subscribe,
    FrameType.COMMIT_OFFSET: CommitOffset,
    FrameType.RESET: Reset,
    FrameType.READY: Ready,
    FrameType.DISCONNECT: Disconnect,
    FrameType.HEARTBEAT: Heartbeat,
}
_LONGEST = 20
"""Frames of a dialogue that nothing has ended."""


def test_damaged_frames_are_read_or_refused_and_nothing_else() -> None:
    seed = chosen_seed()
    hostile, found = HostileClients(seed), Counter[str]()
    began = time.monotonic()
    left = dialogue = None
    for number in range(FRAMES):
        if dialogue is None or not left:
            dialogue, left = PushDialogue(0, must_authenticate=number % 4 == 0), _LONGEST
            if number % 4 == 1:
                dialogue.subscribed()
        left -= 1
        data = hostile.frame()
        try:
            outcome = _outcome(data, dialogue)
        except Exception as fault:
            fault.add_note(f"seed {seed}, frame {number}: {data.hex()}")
            raise
        found[outcome] += 1
        if outcome != "read":
            dialogue = None
    took_s = time.monotonic() - began
    sys.stdout.write(f"seed {seed}: {FRAMES} damaged frames in {took_s:.0f} s, {dict(found.most_common())}\n")

    assert found["malformed"] > FRAMES / 10, "nothing of it was hostile"
    assert found["wrong-order"] > FRAMES / 100, "nothing of it was hostile"
    assert found["read"] > FRAMES / 100, "nothing of it was read"


def _outcome(data: bytes, dialogue: PushDialogue) -> str:
    """What becomes of a frame: read, incomplete, or the reason of its refusal."""
    reader = PushFrameReader(UNAUTHENTICATED_BYTES, UNAUTHENTICATED_FRAMES)
    frames = reader.received(data)
    assert reader.held_bytes <= len(data), "what has not arrived takes no memory"
    reason, message = _refusal(frames, dialogue)
    assert bool(message) is bool(reason), "it says what is wrong"
    assert "\n" not in message, "one sentence"
    if reason or reader.fault is not None:
        return reason or "malformed"
    return "read" if frames else "incomplete"


def _refusal(frames: list[PushFrame], dialogue: PushDialogue) -> tuple[str, str]:
    """Reason and message; empty where every frame is read."""
    try:
        for frame in frames:
            dialogue.check(frame.type, frame.id)
            _decode(frame)
    except WrongFrameError as fault:
        return fault.reason, str(fault)
    except MalformedMessageError as fault:
        return "malformed", str(fault)
    return "", ""


def _decode(frame: PushFrame) -> None:
    if frame.type == FrameType.DATA:
        _decode_data(frame)
        return
    decode_control(_KINDS[FrameType(frame.type)], frame.payload)
    if frame.type == FrameType.HEARTBEAT:
        decode_control(Login, frame.payload)


def _decode_data(frame: PushFrame) -> None:
    if bytes(frame.payload[:1]) == b"{":
        decode_plain(frame.payload)
        return
    data = decode_data(frame.payload)
    if isinstance(data, PushedBatches):
        assert len(data.batches) < len(frame.payload)
        return
    assert isinstance(data, PushedRecord)
    assert encode_record(data) == frame.payload, "what is read is what was sent, and all of it"


def test_a_frame_cut_anywhere_is_incomplete_and_takes_what_has_arrived() -> None:
    hostile = HostileClients(1)
    for _ in range(200):
        data = hostile.frame()
        for cut in range(min(len(data), 100)):
            reader = PushFrameReader(UNAUTHENTICATED_BYTES)
            frames = reader.received(data[:cut])
            assert reader.held_bytes <= cut
            assert cut >= HEADER_SIZE or not frames
