"""A simulated broker process: what `servers.push` does around the cores, on the model's log.

A kill loses connections, sessions, assignments and locks; `Durable` stays.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from qanat.edge.credit import CreditWindow
from qanat.edge.push_dialogue import PushDialogue, Stage, WrongFrameError
from qanat.edge.push_queue import Held, PushQueue
from qanat.edge.push_session import TAKEN_BACK, Place, PushSession
from qanat.edge.resume import resume
from qanat.model.ids import TopicPartition
from qanat.wire.push.control import Ack, CommitOffset, Mode, Reset, Subscribe, Verdict, decode_control, encode_control
from qanat.wire.push.data import PushedRecord, encode_record
from qanat.wire.push.frames import FrameType, PushFrame, PushFrameReader, encode_frame
from verify.push.model import TOPIC, Durable, PushMismatchError

LOCK_MS = 20_000
SILENT_MS = 30_000
"""What clients are promised: so long they may be silent."""
_LIMIT = 1024 * 1024


@dataclass
class Wire:
    """A connection: bytes on their way in both directions."""

    to_client: deque[bytes] = field(default_factory=deque)
    to_broker: deque[bytes] = field(default_factory=deque)
    is_cut: bool = False
    """Nothing arrives any more, and neither side is told."""
    is_closed: bool = False
    """Both sides learn of it: what is on its way to the client still arrives."""


class BrokerConnection:
    """The broker's end."""

    def __init__(self, wire: Wire, now_ms: int) -> None:
        self.wire = wire
        self.reader = PushFrameReader(_LIMIT)
        self.dialogue = PushDialogue(now_ms, must_authenticate=False)
        self.mode: Mode | None = None
        self.session: PushSession | None = None
        self.queue: PushQueue | None = None
        self.commit_answers: list[int] = []
        self.arrived_ms = now_ms
        """When something of the client came last, whatever the dialogue makes of it."""

    def send(self, frame_type: FrameType, frame_id: int, payload: bytes, now_ms: int) -> None:
        self.dialogue.said_ms = now_ms
        self.wire.to_client.append(encode_frame(frame_type, frame_id, payload))


class SimBroker:
    """One broker."""

    def __init__(self, durable: Durable) -> None:
        self._durable = durable
        self.connections: list[BrokerConnection] = []
        self.owners: dict[TopicPartition, BrokerConnection] = {}
        self.locks: dict[int, tuple[BrokerConnection, int]] = {}
        """Values of the queue that a worker holds, and until when."""

    def accept(self, wire: Wire, now_ms: int) -> None:
        self.connections.append(BrokerConnection(wire, now_ms))

    # Frames

    def received(self, connection: BrokerConnection, data: bytes, now_ms: int) -> None:
        connection.dialogue.heard_ms = connection.arrived_ms = now_ms
        for frame in connection.reader.received(data):
            connection.dialogue.check(frame.type, frame.id)
            self._handle(connection, frame, now_ms)
        self.pump(now_ms)

    def _handle(self, connection: BrokerConnection, frame: PushFrame, now_ms: int) -> None:
        if frame.type == FrameType.SUBSCRIBE:
            self._subscribe(connection, decode_control(Subscribe, frame.payload), now_ms)
        elif frame.type == FrameType.ACK:
            self._acknowledge(connection, frame, now_ms)
        elif frame.type == FrameType.COMMIT_OFFSET and connection.session is not None:
            wanted = decode_control(CommitOffset, frame.payload).positions
            held = {TopicPartition(one.topic, one.partition): Place(one.offset, one.epoch) for one in wanted}
            try:
                connection.session.commit(held)
            except WrongFrameError as fault:
                if fault.reason != TAKEN_BACK:  # Which is answered: a well-behaved client may not know yet.
                    raise

    def _subscribe(self, connection: BrokerConnection, wanted: Subscribe, now_ms: int) -> None:
        connection.dialogue.subscribed()
        connection.mode = wanted.chosen_mode
        credit = CreditWindow(wanted.credit.records, wanted.credit.bytes)
        if connection.mode is Mode.QUEUE:
            connection.queue = PushQueue(credit)
            return
        connection.session = PushSession(credit, now_ms, is_committing=connection.mode is Mode.LOG)
        if connection.mode is Mode.LOG:
            self.rebalance(now_ms)
            return
        known = {TopicPartition(one.topic, one.partition): Place(one.offset, one.epoch) for one in wanted.positions}
        for at in self._durable.logs:
            self._assign(connection, at, known.get(at, Place(0)), now_ms)

    def _acknowledge(self, connection: BrokerConnection, frame: PushFrame, now_ms: int) -> None:
        if connection.session is not None:
            connection.session.acknowledge(frame.id, now_ms)
        elif connection.queue is not None:
            verdict = decode_control(Ack, frame.payload).verdict or Verdict.ACCEPT
            held = connection.queue.settle(frame.id, verdict)
            if held is not None and verdict is not Verdict.RENEW:
                self._settle(connection, held, verdict)

    def _settle(self, connection: BrokerConnection, held: Held, verdict: Verdict) -> None:
        records = self._durable.logs[held.at].records
        value = records[held.offset][1] if held.offset < len(records) else -1
        if self.locks.get(value, (None, 0))[0] is not connection:
            return  # The lock has passed to another; the share group refuses a late verdict.
        del self.locks[value]
        if verdict is Verdict.ACCEPT:
            self._durable.settle(value)

    # The group

    def rebalance(self, now_ms: int) -> None:
        """Give every partition to one member; a member commits before it loses one."""
        members = [one for one in self.connections if one.mode is Mode.LOG and one.dialogue.stage is not Stage.OVER]
        for number, at in enumerate(self._durable.logs):
            target = members[number % len(members)] if members else None
            owner = self.owners.get(at)
            if owner is target:
                continue
            if owner is not None and owner.session is not None:
                owner.session.revoke(at)
                while owner in members and owner.session.has_commits:
                    self.finish_commit(owner)
                owner.session.forget(at)
            self.owners.pop(at, None)
            if target is not None:
                self.owners[at] = target
                self._assign(target, at, self._durable.commits.get(at, Place(0)), now_ms)

    def _assign(self, connection: BrokerConnection, at: TopicPartition, place: Place, now_ms: int) -> None:
        session = connection.session
        assert session is not None
        resumed = resume(place.offset, self._durable.logs[at].extent(place.epoch))
        session.assign(at, Place(resumed.offset, place.epoch))
        if resumed.why:
            self._reset(connection, at, resumed.offset, resumed.why, now_ms)

    def _reset(self, connection: BrokerConnection, at: TopicPartition, offset: int, why: str, now_ms: int) -> None:
        session = connection.session
        assert session is not None
        epoch = self._durable.logs[at].records[offset - 1][0] if offset else -1
        frame_id = session.reset(at, Place(offset, epoch), now_ms)
        payload = encode_control(Reset(why, at.topic, at.partition, offset, epoch))
        connection.send(FrameType.RESET, frame_id, payload, now_ms)

    def finish_commit(self, connection: BrokerConnection) -> None:
        """End the commit that is under way, or begin and end the next one."""
        session = connection.session
        assert session is not None
        if not session._committing:
            session.next_commit()
        for at, place in session._committing.items():
            if self.owners.get(at) is connection:
                self._durable.commit(at, place)
        session.commit_ended(is_durable=True)

    def truncated(self, now_ms: int) -> None:
        """A new leader: cursors beyond its log are reset."""
        for connection in self.connections:
            session = connection.session
            for at, cursor in list(session.cursors.items()) if session is not None else ():
                resumed = resume(cursor.place.offset, self._durable.logs[at].extent(cursor.place.epoch))
                if resumed.why:
                    self._reset(connection, at, resumed.offset, resumed.why, now_ms)
        self.locks.clear()

    # Deliveries

    def pump(self, now_ms: int) -> None:
        """Send what may be sent."""
        for connection in self.connections:
            if connection.session is not None:
                self._pump_log(connection, connection.session, now_ms)
            elif connection.queue is not None:
                self._pump_queue(connection, connection.queue, now_ms)

    def _pump_log(self, connection: BrokerConnection, session: PushSession, now_ms: int) -> None:
        for at, cursor in list(session.cursors.items()):
            records = self._durable.logs[at].records
            while session.may_send(at) and cursor.place.offset < len(records):
                offset = cursor.place.offset
                epoch, value = records[offset]
                payload = _data(at, offset, epoch, value)
                if not session.credit.fits(1, len(payload)):
                    break
                frame_id = session.sent(at, Place(offset + 1, epoch), 1, len(payload), now_ms)
                connection.send(FrameType.DATA, frame_id, payload, now_ms)

    def _pump_queue(self, connection: BrokerConnection, queue: PushQueue, now_ms: int) -> None:
        for at, log in self._durable.logs.items():
            for offset, (epoch, value) in enumerate(log.records):
                if value in self._durable.settled or self._is_locked(value, now_ms):
                    continue
                payload = _data(at, offset, epoch, value)
                if not queue.credit.fits(1, len(payload)):
                    return
                self.locks[value] = (connection, now_ms + LOCK_MS)
                frame_id = queue.sent(Held(at, offset, len(payload)))
                connection.send(FrameType.DATA, frame_id, payload, now_ms)

    def _is_locked(self, value: int, now_ms: int) -> bool:
        return value in self.locks and self.locks[value][1] > now_ms

    # Time, ends

    def tick(self, now_ms: int) -> None:
        for connection in list(self.connections):
            session = connection.session
            is_dead = connection.dialogue.is_dead(now_ms)
            if is_dead and now_ms - connection.arrived_ms < SILENT_MS:
                raise PushMismatchError(
                    f"a client is ended as silent {now_ms - connection.arrived_ms} ms after its last frame"
                )
            if is_dead or (session is not None and session.is_overdue(now_ms)):
                connection.send(FrameType.DISCONNECT, 0, b"", now_ms)
                connection.wire.is_closed = True
                self.closed(connection, now_ms)
            elif connection.dialogue.is_heartbeat_due(now_ms):
                connection.send(FrameType.HEARTBEAT, 0, b"", now_ms)
        self.pump(now_ms)

    def closed(self, connection: BrokerConnection, now_ms: int) -> None:
        """A client is gone: its partitions and locks pass to others."""
        if connection not in self.connections:
            return
        self.connections.remove(connection)
        connection.dialogue.stage = Stage.OVER
        self.locks = {value: held for value, held in self.locks.items() if held[0] is not connection}
        if connection.mode is Mode.LOG:
            self.rebalance(now_ms)


def _data(at: TopicPartition, offset: int, epoch: int, value: int) -> bytes:
    assert at.topic == TOPIC
    return encode_record(PushedRecord(0, at.partition, epoch, offset, 0, None, b"%d" % value))
