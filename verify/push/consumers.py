"""Simulated consumer processes. A kill loses inbox, acknowledgements and connection; a store stays."""

from __future__ import annotations

from collections import deque
from random import Random

from qanat.connection.push.receiving import CumulativeAcks, Positions
from qanat.model.ids import TopicPartition
from qanat.wire.push.control import (
    Ack,
    CommitOffset,
    Credit,
    Mode,
    Position,
    Reset,
    Subscribe,
    Verdict,
    decode_control,
    encode_control,
)
from qanat.wire.push.data import PushedRecord, decode_data
from qanat.wire.push.frames import FrameType, PushFrame, PushFrameReader, encode_frame
from verify.push.broker import Wire
from verify.push.model import TOPIC, Durable, PushMismatchError

DEAD_MS = 30_000
HEARTBEAT_MS = 10_000


class SimConsumer:
    """One consumer process, of any mode."""

    def __init__(self, mode: Mode, credit: int, durable: Durable, random: Random) -> None:
        self.mode = mode
        self._credit = credit
        self._durable = durable
        self._random = random
        self.store: dict[TopicPartition, list[int]] = {at: [] for at in durable.logs}
        """Values of mode `all`, written together with the position."""
        self._positions = Positions()
        self.wire: Wire | None = None
        self.is_up = True
        self.inbox: deque[PushFrame] = deque()
        self._begin()

    def _begin(self) -> None:
        self._reader = PushFrameReader(1024 * 1024)
        self._acks = CumulativeAcks()
        self.inbox = deque()
        self._due_ack = 0
        self._next_id = 0
        self._out = 0
        self._reached: dict[TopicPartition, tuple[int, int]] = {}

    # Connection

    def connect(self, wire: Wire, now_ms: int) -> None:
        self._begin()
        self.wire = wire
        self.heard_ms = self.said_ms = now_ms
        positions = [Position(at.topic, at.partition, *point) for at, point in self._positions.known.items()]
        group = "" if self.mode is Mode.ALL else "group"
        wanted = Subscribe(1, topics=[TOPIC], group=group, mode=self.mode, credit=Credit(self._credit, 1024 * 1024))
        if self.mode is Mode.ALL:
            wanted = Subscribe(
                1, topics=[TOPIC], mode=self.mode, credit=Credit(self._credit, 1024 * 1024), positions=positions
            )
        self._send(FrameType.SUBSCRIBE, encode_control(wanted), now_ms)

    def _send(self, frame_type: FrameType, payload: bytes, now_ms: int, frame_id: int | None = None) -> None:
        if self.wire is None:
            return
        if frame_id is None:
            self._next_id += 1
            frame_id = self._next_id
        self.said_ms = now_ms
        self.wire.to_broker.append(encode_frame(frame_type, frame_id, payload))

    def disconnected(self) -> None:
        """The connection is gone. Frames in the inbox are dropped: they come again."""
        self.wire = None
        self._begin()

    def kill(self) -> None:
        self.is_up = False
        self.disconnected()

    def received(self, data: bytes, now_ms: int) -> None:
        self.heard_ms = now_ms
        for frame in self._reader.received(data):
            if frame.type == FrameType.DISCONNECT:
                self.disconnected()
                return
            if frame.type in (FrameType.DATA, FrameType.RESET):
                self._acks.arrived(frame.id)
                self.inbox.append(frame)
            if frame.type == FrameType.DATA:
                self._out += 1
                if self._out > self._credit:
                    raise PushMismatchError(f"{self._out} records are on their way, {self._credit} were granted")

    # Work

    def process(self, now_ms: int) -> None:
        """Process one frame."""
        if not self.inbox:
            return
        frame = self.inbox.popleft()
        if frame.type == FrameType.RESET:
            self._reset(decode_control(Reset, frame.payload))
        else:
            record = decode_data(frame.payload)
            assert isinstance(record, PushedRecord)
            self._take(record, frame.id, now_ms)
        if self.mode is not Mode.QUEUE:
            self._due_ack = max(self._due_ack, self._acks.done(frame.id))
            if frame.type == FrameType.RESET:
                self.acknowledge(now_ms)

    def _take(self, record: PushedRecord, frame_id: int, now_ms: int) -> None:
        at, value = TopicPartition(TOPIC, record.partition), int(record.value or b"")
        if self.mode is Mode.LOG:
            self._durable.processed[value] = None
            self._reached[at] = record.offset + 1, record.leader_epoch
        elif self.mode is Mode.ALL:
            if self._positions.is_new(at, record.offset):
                if record.offset != len(self.store[at]):
                    raise PushMismatchError(f"{at}: {record.offset} came after {len(self.store[at])} records")
                self.store[at].append(value)
                self._positions.advance(at, record.offset, record.leader_epoch)
        else:
            self._judge(value, frame_id, now_ms)

    def _judge(self, value: int, frame_id: int, now_ms: int) -> None:
        verdict = Verdict.ACCEPT if self._random.random() < 0.8 else Verdict.RELEASE
        if verdict is Verdict.ACCEPT:
            self._durable.worked[value] = None
        self._out -= 1
        self._send(FrameType.ACK, encode_control(Ack(verdict=verdict)), now_ms, frame_id)

    def _reset(self, reset: Reset) -> None:
        at = TopicPartition(reset.topic, reset.partition)
        if self.mode is Mode.ALL:
            del self.store[at][reset.offset :]
            self._positions.reset(at, reset.offset, reset.epoch)
        self._reached.pop(at, None)

    def acknowledge(self, now_ms: int) -> None:
        """Acknowledge all that is processed."""
        if self._due_ack:
            self._send(FrameType.ACK, b"", now_ms, self._due_ack)
            self._due_ack = 0
            self._out = sum(1 for frame in self.inbox if frame.type == FrameType.DATA)

    def commit(self, now_ms: int) -> None:
        """COMMIT_OFFSET of what is processed."""
        if self.mode is Mode.LOG and self._reached:
            rows = [Position(at.topic, at.partition, *place) for at, place in self._reached.items()]
            self._send(FrameType.COMMIT_OFFSET, encode_control(CommitOffset(rows)), now_ms)

    def tick(self, now_ms: int) -> None:
        if self.wire is None:
            return
        if now_ms - self.heard_ms >= DEAD_MS:
            self.wire.is_closed = True
            self.disconnected()
        elif now_ms - self.said_ms >= HEARTBEAT_MS:
            self._send(FrameType.HEARTBEAT, b"", now_ms)
