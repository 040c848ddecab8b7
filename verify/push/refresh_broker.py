"""A simulated broker with refreshes: what `servers.push` does around `edge.refresh_turn`, on the model's ledger."""

from __future__ import annotations

from random import Random

from qanat.edge.credit import CreditWindow
from qanat.edge.push_dialogue import PushDialogue, Stage
from qanat.edge.push_session import Place, PushSession
from qanat.edge.refresh_ledger import Move
from qanat.edge.refresh_turn import End, RefreshTurn, SendReady, SendReset, Write, turn_of
from qanat.edge.refresh_turn import Stage as PartStage
from qanat.edge.resume import resume
from qanat.model.ids import TopicPartition
from qanat.model.push_refreshes import PushRefresh, RefreshState
from qanat.wire.push.control import (
    Ack,
    Position,
    Range,
    Ready,
    Reset,
    Subscribe,
    decode_control,
    encode_control,
)
from qanat.wire.push.data import PushedRecord, encode_record
from qanat.wire.push.frames import FrameType, PushFrame, PushFrameReader, encode_frame
from verify.push.broker import Wire
from verify.push.model import TOPIC, PushMismatchError
from verify.push.refresh_model import RefreshDurable, Store


class Member:
    """A subscriber of the group, as the broker sees it."""

    def __init__(self, wire: Wire, store: Store, now_ms: int) -> None:
        self.wire = wire
        self.store = store
        self.reader = PushFrameReader(1024 * 1024)
        self.dialogue = PushDialogue(now_ms, must_authenticate=False)
        self.session: PushSession | None = None
        self.turn: RefreshTurn | None = None
        self.writing: tuple[Write, PushRefresh | None] | None = None
        """A step that is in the ledger, of which the broker does not know yet."""
        self.unchecked: set[TopicPartition] = set()
        """Cursors that were not compared with the log."""

    def send(self, frame_type: FrameType, frame_id: int, payload: bytes, now_ms: int) -> None:
        self.dialogue.said_ms = now_ms
        self.wire.to_client.append(encode_frame(frame_type, frame_id, payload))


class RefreshBroker:
    """One broker; its kill loses members, sessions and turns."""

    def __init__(self, durable: RefreshDurable, draw: Random) -> None:
        self._durable = durable
        self._draw = draw
        self.members: list[Member] = []
        self.owners: dict[TopicPartition, Member] = {}
        self.zombies: list[tuple[Member, TopicPartition]] = []
        """Members that do not know yet that they have lost a partition."""

    def accept(self, wire: Wire, store: Store, now_ms: int) -> None:
        self.members.append(Member(wire, store, now_ms))

    # Frames

    def received(self, member: Member, data: bytes, now_ms: int) -> None:
        member.dialogue.heard_ms = now_ms
        for frame in member.reader.received(data):
            member.dialogue.check(frame.type, frame.id)
            if frame.type == FrameType.SUBSCRIBE:
                wanted = decode_control(Subscribe, frame.payload)
                member.dialogue.subscribed()
                credit = CreditWindow(wanted.credit.records, wanted.credit.bytes)
                member.session = PushSession(credit, now_ms, is_committing=True)
                self.rebalance(now_ms)
            elif frame.type == FrameType.ACK:
                self._acknowledge(member, frame, now_ms)
        self.pump(now_ms)

    def _acknowledge(self, member: Member, frame: PushFrame, now_ms: int) -> None:
        session = member.session
        assert session is not None
        if not session.is_answer(frame.id, now_ms):
            session.acknowledge(frame.id, now_ms)
        elif member.turn is not None:
            rows = decode_control(Ack, frame.payload).positions
            reached = {TopicPartition(one.topic, one.partition): Place(one.offset, one.epoch) for one in rows}
            member.unchecked.update(member.turn.answered(frame.id, reached))

    # The group

    def rebalance(self, now_ms: int) -> None:
        """Give every partition to one member. A member commits before it loses one, or learns of it later."""
        members = [one for one in self.members if one.session is not None and one.dialogue.stage is not Stage.OVER]
        shift = self._draw.randint(0, 1)
        for number, at in enumerate(self._durable.logs):
            target = members[(number + shift) % len(members)] if members else None
            owner = self.owners.get(at)
            if owner is target:
                continue
            if owner is not None:
                self._take_from(owner, at, is_told=owner in members and self._draw.random() < 0.6)
            self.owners.pop(at, None)
            if target is not None and target.session is not None:
                if (target, at) in self.zombies:
                    self.tell_zombies()  # A member learns what it has lost before it gets anything.
                self.owners[at] = target
                target.session.assign(at, self._durable.commits.get(at, Place(0)))
                target.unchecked.add(at)
        for member in members:
            self.look(member)

    def _take_from(self, owner: Member, at: TopicPartition, *, is_told: bool) -> None:
        if not is_told:
            self.zombies.append((owner, at))
            return
        session = owner.session
        assert session is not None
        if owner.turn is not None:
            owner.turn.revoked(at)
        session.revoke(at)
        while session.has_commits:
            self.finish_commit(owner)
        session.forget(at)

    def tell_zombies(self) -> None:
        """Members learn what they have lost."""
        for member, at in self.zombies:
            if member.turn is not None:
                member.turn.lost(at)
            if member.session is not None:
                member.session.forget(at)
        self.zombies.clear()

    def finish_commit(self, member: Member) -> None:
        """End the commit that is under way, or begin and end the next one."""
        session = member.session
        assert session is not None
        if not session._committing:
            session.next_commit()
        held = dict(session._committing)
        lost = [at for at in held if self.owners.get(at) is not member]
        for at, place in held.items():
            if at not in lost:
                self._durable.commit(at, place, member.store)
        session.commit_ended(is_durable=True)
        if member.turn is not None:
            member.turn.commit_ended([at for at in held if at not in lost], is_durable=True)
            member.turn.commit_ended(lost, is_durable=False)

    def fail_commit(self, member: Member) -> None:
        """The coordinator does not answer: what was to be committed is dropped."""
        session = member.session
        assert session is not None
        if not session._committing:
            session.next_commit()
        held = list(session._committing)
        session.commit_ended(is_durable=False)
        if member.turn is not None:
            member.turn.commit_ended(held, is_durable=False)

    # Refreshes

    def look(self, member: Member) -> None:
        """Compare a member with the ledger."""
        if member.session is not None:
            before = member.turn
            member.turn = turn_of(before, member.session, TOPIC, self._durable.entry)
            if member.turn is not before:
                member.writing = None

    def step(self, member: Member, now_ms: int) -> bool:
        """Do one thing of a member's refresh; False where there is nothing to do."""
        turn = member.turn
        if turn is not None and member.writing is not None:
            (write, entry), member.writing = member.writing, None
            turn.wrote(write, entry, now_ms, now_ms)
            self.pump(now_ms)
            return True
        act = None if turn is None else turn.next(now_ms)
        if turn is None or act is None:
            return False
        match act:
            case Write(step):
                if isinstance(step, Move) and step.state is RefreshState.READYING:
                    self._require_replayed(turn)
                entry = self._durable.write(step, now_ms)
                if self._draw.random() < 0.3:
                    member.writing = act, entry
                else:
                    turn.wrote(act, entry, now_ms, now_ms)
            case SendReset(frame_id, ranges, retry):
                rows = [Range(at.partition, *one) for at, one in ranges.items()]
                reset = Reset("refresh", TOPIC, refresh=turn.id, ranges=rows, retry=retry)
                member.send(FrameType.RESET, frame_id, encode_control(reset), now_ms)
            case SendReady(frame_id, ends, retry):
                places = [Position(at.topic, at.partition, *one) for at, one in ends.items()]
                member.send(FrameType.READY, frame_id, encode_control(Ready(turn.id, TOPIC, places, retry)), now_ms)
            case End():
                member.turn = None
                self.end(member, now_ms)
        self.pump(now_ms)
        return True

    def _require_replayed(self, turn: RefreshTurn) -> None:
        behind = [at for at, part in turn.parts.items() if part.stage in (PartStage.NEW, PartStage.ASKED)]
        if behind:
            raise PushMismatchError(f"READY of {turn.id} while {behind} are not replayed: generations are mixed")

    # Deliveries

    def _check(self, member: Member, session: PushSession, at: TopicPartition, now_ms: int) -> None:
        """Compare a cursor, and the end of its replay, with the log."""
        cursor = session.cursors[at]
        if cursor.reset_id:
            return
        member.unchecked.discard(at)
        log = self._durable.logs[at]
        resumed = resume(cursor.place.offset, log.extent(cursor.place.epoch))
        if cursor.is_replaying:
            end = resume(cursor.limit, log.extent(cursor.limit_epoch))
            if end.why:
                session.clip(at, end.offset)
        if resumed.why:
            epoch = log.records[resumed.offset - 1][0] if resumed.offset else -1
            refresh = member.turn.id if cursor.is_replaying and member.turn is not None else ""
            frame_id = session.reset(at, Place(resumed.offset, epoch), now_ms)
            reset = Reset(resumed.why, at.topic, at.partition, resumed.offset, epoch, refresh)
            member.send(FrameType.RESET, frame_id, encode_control(reset), now_ms)

    def truncated(self) -> None:
        """A new leader: every cursor is compared with its log."""
        for member in self.members:
            if member.session is not None:
                member.unchecked.update(member.session.cursors)

    def pump(self, now_ms: int) -> None:
        for member in self.members:
            if member.session is not None and member.dialogue.stage is not Stage.OVER:
                self._pump(member, member.session, now_ms)

    def _pump(self, member: Member, session: PushSession, now_ms: int) -> None:
        for at, cursor in list(session.cursors.items()):
            if at in member.unchecked:
                self._check(member, session, at, now_ms)
                cursor = session.cursors[at]
            records = self._durable.logs[at].records
            while session.may_send(at) and cursor.place.offset < len(records):
                offset = cursor.place.offset
                epoch, value = records[offset]
                payload = encode_record(PushedRecord(0, at.partition, epoch, offset, 0, None, b"%d" % value))
                if not session.credit.fits(1, len(payload)):
                    break
                frame_id = session.sent(at, Place(offset + 1, epoch), 1, len(payload), now_ms)
                member.send(FrameType.DATA, frame_id, payload, now_ms)

    # Time, ends

    def tick(self, now_ms: int) -> None:
        for member in list(self.members):
            session = member.session
            if member.dialogue.is_dead(now_ms) or (session is not None and session.is_overdue(now_ms)):
                self.end(member, now_ms)
                continue
            if member.dialogue.is_heartbeat_due(now_ms):
                member.send(FrameType.HEARTBEAT, 0, b"", now_ms)
            self.look(member)
        self.pump(now_ms)

    def end(self, member: Member, now_ms: int) -> None:
        """End a connection; what is on its way still arrives."""
        member.send(FrameType.DISCONNECT, 0, b"", now_ms)
        member.wire.is_closed = True
        self.closed(member, now_ms)

    def closed(self, member: Member, now_ms: int) -> None:
        if member not in self.members:
            return
        self.members.remove(member)
        member.dialogue.stage = Stage.OVER
        self.zombies = [one for one in self.zombies if one[0] is not member]
        for at, owner in list(self.owners.items()):
            if owner is member:
                del self.owners[at]
        self.rebalance(now_ms)

    def require_done(self) -> None:
        """What the ledger calls done is served."""
        entry = self._durable.entry
        for at, owner in self.owners.items():
            if entry is not None and self._durable.is_done(at) and owner.store.served[at].id not in (entry.id, ""):
                raise PushMismatchError(f"{at}: {entry.id} is done, {owner.store.served[at].id} is served")
