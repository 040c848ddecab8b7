"""Conversations of hostile push clients, by a seed: valid frames of every kind, and what becomes of them.

A conversation begins in order, so that its damage is met at every stage: bytes are changed, lengths lie, payloads are
cut or doubled, types, ids and order are wrong, JSON has other types and bounds. What follows a frame that ends a
connection is sent as well.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from random import Random

from qanat.wire.push.control import Heartbeat, Producer, encode_control
from qanat.wire.push.data import PushedRecord, batches_front, encode_record
from qanat.wire.push.frames import HEADER_SIZE, FrameType
from qanat.wire.records import Record, encode_batch

TOPIC = "prices"
_HEADER = struct.Struct(">BQI")
_LONGEST = 160
_DAMAGED_SHARE = 0.3
_SUBSCRIBED_SHARE = 0.15
_PLAIN_SHARE = 0.1
_IDEMPOTENT_SHARE = 0.01

_RECORD = encode_record(PushedRecord(0, 0, -1, -1, 0, b"k", b"v", ((b"h", b"1"), (b"n", None))))
_BATCH = batches_front(0, 0, -1, -1, -1) + bytes(encode_batch([Record(0, 1, b"k", b"a"), Record(1, 1, None, b"b")]))
_PLAIN = b'{"topic":"prices","key":"k","value":"v"}'
_POSITION = b'{"positions":[{"topic":"prices","partition":0,"offset":1,"epoch":0}]}'
_TOKEN = b'{"v":1,"mechanism":"SCRAM-SHA-512","token":"biwsbj1hLHI9Yg=="}'
_GREETINGS = (
    encode_control(Heartbeat(1, topics=[TOPIC])),
    encode_control(Heartbeat(1, topics=[TOPIC])),
    encode_control(Heartbeat(1, topics=[TOPIC])),
    _TOKEN,
    b'{"v":1,"ask":"consumers"}',
    b"{}",
    b"",
)
_IDEMPOTENT = encode_control(Heartbeat(1, topics=[TOPIC], producer=Producer()))
"""Rare: the log remembers such a producer for a day."""
_SUBSCRIPTIONS = (
    b'{"v":1,"topics":["prices"],"credit":{"records":3,"bytes":300},"forms":[1],"start":"latest"}',
    b'{"v":1,"topics":["prices"],"credit":{"records":2,"bytes":100},"positions":[{"topic":"prices","partition":0,"offset":1}]}',
    b'{"v":1,"topic":"prices","group":"hostile","credit":{"records":3,"bytes":300}}',
    b'{"v":1,"topic":"prices","group":"hostile-queue","mode":"queue","credit":{"records":3,"bytes":300}}',
    b'{"topic":"prices","group":"hostile"}',
)
_BEFORE = (
    (FrameType.HEARTBEAT, b""),
    (FrameType.HEARTBEAT, b""),
    (FrameType.HEARTBEAT, _GREETINGS[0]),
    (FrameType.DATA, _RECORD),
    (FrameType.DATA, _RECORD),
    (FrameType.DATA, _RECORD),
    (FrameType.DATA, _BATCH),
    (FrameType.DISCONNECT, b'{"reason":"bye"}'),
)
_AFTER = (
    (FrameType.ACK, b""),
    (FrameType.ACK, b'{"verdict":"release"}'),
    (FrameType.ACK, b'{"credit":{"records":5,"bytes":500}}'),
    (FrameType.COMMIT_OFFSET, _POSITION),
    (FrameType.HEARTBEAT, b""),
    (FrameType.HEARTBEAT, b'{"v":1}'),
)
_ANY = (
    (FrameType.HEARTBEAT, _TOKEN),
    (FrameType.HEARTBEAT, b'{"token":"bj1hLHI9Yg=="}'),
    (FrameType.RESET, b'{"why":"truncated"}'),
    (FrameType.READY, b'{"refresh":"x"}'),
    (FrameType.SUBSCRIBE, _SUBSCRIPTIONS[0]),
    (FrameType.COMMIT_OFFSET, _POSITION),
    (FrameType.ACK, b""),
    (FrameType.DATA, _PLAIN),
)
_EVERY = (
    *_BEFORE,
    *_AFTER,
    *_ANY,
    *((FrameType.SUBSCRIBE, one) for one in _SUBSCRIPTIONS),
    *((FrameType.HEARTBEAT, one) for one in _GREETINGS),
)
_VALUES = (
    b"-1",
    b"1e99",
    b"99999999999999999999",
    b"null",
    b"[]",
    b"{}",
    b'"\\ud800"',
    b"true",
    b'""',
    b"[" * 2000,
    b'"' + b"x" * 300 + b'"',
)
_LENGTHS = (0, 1, 12, 13, 64 * 1024 - 1, 64 * 1024, 64 * 1024 + 1, 2**31 - 1, 2**31, 2**32 - 1)
_IDS = (0, 1, 2, 2**31, 2**63 - 1, 2**63, 2**64 - 1)


class HostileClients:
    """The conversations of one seed."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._number = 0
        self._damages: tuple[Callable[[bytearray], bytes | bytearray], ...] = (
            self._change_bytes,
            self._change_bytes,
            self._lie_about_length,
            self._cut,
            self._double,
            self._change_type,
            self._change_id,
            self._change_value,
            self._insert,
        )

    def conversation(self) -> tuple[bytes, int]:
        """The bytes of one client, and how many frames they are."""
        draw = self._random
        is_subscribed = draw.random() < _SUBSCRIBED_SHARE
        kind, first = FrameType.HEARTBEAT, draw.choice(_GREETINGS)
        if draw.random() < _IDEMPOTENT_SHARE:
            first = _IDEMPOTENT
        if is_subscribed:
            kind, first = FrameType.SUBSCRIBE, draw.choice(_SUBSCRIPTIONS)
        known = _AFTER if is_subscribed else _BEFORE
        is_plain = draw.random() < _PLAIN_SHARE
        parts: list[bytes | bytearray] = [_HEADER.pack(kind, 1, len(first)) + first]
        count = draw.randrange(1, _LONGEST)
        for number in range(2, count + 1):
            kind, payload = draw.choice(known) if draw.random() < 0.97 else draw.choice(_ANY)
            if is_plain and kind == FrameType.DATA:
                payload = _PLAIN
            frame_id = draw.randrange(1, number + 1) if kind == FrameType.ACK else number
            parts.append(_HEADER.pack(kind, frame_id, len(payload)) + payload)
        if draw.random() < _DAMAGED_SHARE or count < 4:
            place = draw.randrange(count)
            parts[place] = draw.choice(self._damages)(bytearray(parts[place]))
        else:
            parts[-1] = draw.choice(self._damages)(bytearray(parts[-1]))
        return b"".join(parts), count

    def frame(self) -> bytes:
        """One damaged frame, of any kind; the ids of good ones rise."""
        draw = self._random
        kind, payload = draw.choice(_EVERY)
        self._number += 1
        return bytes(draw.choice(self._damages)(bytearray(_HEADER.pack(kind, self._number, len(payload)) + payload)))

    def _change_bytes(self, frame: bytearray) -> bytearray:
        for _ in range(self._random.randrange(1, 4)):
            frame[self._random.randrange(len(frame))] = self._random.randrange(256)
        return frame

    def _lie_about_length(self, frame: bytearray) -> bytearray:
        struct.pack_into(">I", frame, 9, self._random.choice(_LENGTHS))
        return frame

    def _cut(self, frame: bytearray) -> bytearray:
        """Less payload than before, and its true length."""
        kept = self._random.randrange(HEADER_SIZE, len(frame) + 1)
        del frame[kept:]
        struct.pack_into(">I", frame, 9, kept - HEADER_SIZE)
        return frame

    def _double(self, frame: bytearray) -> bytearray:
        """The payload twice."""
        frame += frame[HEADER_SIZE:]
        struct.pack_into(">I", frame, 9, len(frame) - HEADER_SIZE)
        return frame

    def _change_type(self, frame: bytearray) -> bytearray:
        frame[0] = self._random.randrange(256) if self._random.random() < 0.5 else self._random.randrange(1, 9)
        return frame

    def _change_id(self, frame: bytearray) -> bytearray:
        struct.pack_into(">Q", frame, 1, self._random.choice(_IDS))
        return frame

    def _change_value(self, frame: bytearray) -> bytearray:
        """Another value in the place of one of JSON's."""
        places = [at for at in range(HEADER_SIZE, len(frame)) if frame[at] == ord(":")]
        if not places:
            return self._insert(frame)
        at = self._random.choice(places) + 1
        end = min((found for found in (frame.find(b",", at), frame.find(b"}", at)) if found > 0), default=len(frame))
        frame[at:end] = self._random.choice(_VALUES)
        struct.pack_into(">I", frame, 9, len(frame) - HEADER_SIZE)
        return frame

    def _insert(self, frame: bytearray) -> bytearray:
        at = self._random.randrange(HEADER_SIZE, len(frame) + 1)
        frame[at:at] = self._random.randbytes(self._random.randrange(1, 50))
        struct.pack_into(">I", frame, 9, len(frame) - HEADER_SIZE)
        return frame
