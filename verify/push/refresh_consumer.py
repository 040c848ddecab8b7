"""A simulated consumer application: records into generations of its store, switched at READY, in crash-safe steps."""

from __future__ import annotations

from collections import deque
from random import Random

from qanat.connection.push.receiving import CumulativeAcks
from qanat.connection.push.refreshing import RefreshEvent, RefreshFrames, Repeated
from qanat.model.ids import TopicPartition
from qanat.wire.push.control import Credit, Mode, Ready, Reset, Subscribe, decode_control, encode_control
from qanat.wire.push.data import PushedRecord, decode_data
from qanat.wire.push.frames import FrameType, PushFrame, PushFrameReader, encode_frame
from verify.push.broker import Wire
from verify.push.consumers import DEAD_MS, HEARTBEAT_MS
from verify.push.model import TOPIC, PushMismatchError
from verify.push.refresh_model import Store


class StoreConsumer:
    """One process. A kill loses all but the store."""

    def __init__(self, store: Store, credit: int, draw: Random) -> None:
        self.store = store
        self._draw = draw
        self._is_eager = draw.random() < 0.5
        """Whether it answers READY before records that came earlier: the broker waits for their ACK."""
        self.is_sound = False
        """Whether RESET and READY always succeed."""
        self._credit = credit
        self.wire: Wire | None = None
        self._begin()

    def _begin(self) -> None:
        self._reader = PushFrameReader(1024 * 1024)
        self._acks = CumulativeAcks()
        self.frames = RefreshFrames()
        self.inbox: deque[tuple[int, PushedRecord | Reset | RefreshEvent]] = deque()
        self._handled: tuple[int, RefreshEvent, bytes] | None = None
        """An event whose effect is durable, and whose ACK was not sent."""
        self._due_ack = 0
        self._next_id = 0
        self.heard_ms = self.said_ms = 0

    def connect(self, wire: Wire, now_ms: int) -> None:
        self._begin()
        self.wire = wire
        self.heard_ms = self.said_ms = now_ms
        wanted = Subscribe(1, topics=[TOPIC], group="group", mode=Mode.LOG, credit=Credit(self._credit, 1024 * 1024))
        self._next_id += 1
        self._send(FrameType.SUBSCRIBE, self._next_id, encode_control(wanted), now_ms)

    def _send(self, frame_type: FrameType, frame_id: int, payload: bytes, now_ms: int) -> None:
        if self.wire is not None:
            self.said_ms = now_ms
            self.wire.to_broker.append(encode_frame(frame_type, frame_id, payload))

    def disconnected(self) -> None:
        self.wire = None
        self._begin()

    def received(self, data: bytes, now_ms: int) -> None:
        self.heard_ms = now_ms
        for frame in self._reader.received(data):
            if frame.type == FrameType.DISCONNECT:
                self.disconnected()
                return
            self._take(frame, now_ms)

    def _take(self, frame: PushFrame, now_ms: int) -> None:
        if frame.type == FrameType.DATA:
            record = decode_data(frame.payload)
            assert isinstance(record, PushedRecord)
            self._acks.arrived(frame.id)
            self.inbox.append((frame.id, record))
        elif frame.type in (FrameType.RESET, FrameType.READY):
            said: Reset | Ready = (
                decode_control(Reset, frame.payload)
                if frame.type == FrameType.RESET
                else decode_control(Ready, frame.payload)
            )
            if isinstance(said, Reset) and not said.ranges:
                self._acks.arrived(frame.id)
                self.inbox.append((frame.id, said))
                return
            event = self.frames.arrived(frame.id, said)
            if isinstance(event, Repeated):
                self._send(FrameType.ACK, event.frame_id, event.payload, now_ms)
            elif event is not None:
                self.inbox.append((frame.id, event))

    # Work: one durable thing, or one answer

    def process(self, now_ms: int) -> None:
        if self._handled is not None:
            _, event, payload = self._handled
            self._handled = None
            self._send(FrameType.ACK, event.frame_id, payload, now_ms)
            return
        if not self.inbox:
            return
        ready = [one for one in self.inbox if isinstance(one[1], RefreshEvent) and one[1].is_ready]
        if self._is_eager and ready:
            self.inbox.remove(ready[0])
            self.inbox.appendleft(ready[0])
        frame_id, found = self.inbox.popleft()
        if isinstance(found, RefreshEvent):
            if not self.is_sound and self._draw.random() < 0.1:
                self.frames.failed(found)
                return
            self._handled = frame_id, found, self._switch(found)
            return
        if isinstance(found, Reset):
            self.store.void(found)
        else:
            at = TopicPartition(TOPIC, found.partition)
            refresh = self.frames.under_way.get(at)
            value = int(found.value or b"")
            if refresh is not None and found.offset >= refresh.partitions[at].end:
                raise PushMismatchError(f"{at}: {found.offset} came before READY of {refresh.id}")
            self.store.put(at, "" if refresh is None else refresh.id, found.offset, found.leader_epoch, value)
        self._due_ack = max(self._due_ack, self._acks.done(frame_id))
        if isinstance(found, Reset):
            self.acknowledge(now_ms)

    def _switch(self, event: RefreshEvent) -> bytes:
        if event.is_ready:
            self.store.ready(event.refresh)
            return self.frames.answered(event)
        return self.frames.answered(event, self.store.reset(event.refresh))

    def acknowledge(self, now_ms: int) -> None:
        if self._due_ack:
            self._send(FrameType.ACK, self._due_ack, b"", now_ms)
            self._due_ack = 0

    def tick(self, now_ms: int) -> None:
        if self.wire is None:
            return
        if now_ms - self.heard_ms >= DEAD_MS:
            self.wire.is_closed = True
            self.disconnected()
        elif now_ms - self.said_ms >= HEARTBEAT_MS:
            self._next_id += 1
            self._send(FrameType.HEARTBEAT, self._next_id, b"", now_ms)
