"""A refresh at one subscriber: RESET, replay, READY, each with its repetitions, and what the ledger is told.

`next` says what to do now: write a step of the ledger, send RESET or READY, or end the connection. One thing is done at
a time, and its outcome reported, before `next` is asked again.

Rule 1: RESET leaves after the ledger has the attempt; READY after every partition of the refresh here is replayed and
        acknowledged, and the ledger has that; records after the end follow once the commit and the ledger have the end.
Rule 2: the client says in its ACK of RESET how far its generation is. The broker assumes nothing: the subscriber may be
        another one than before, or may have lost what it had.
Rule 3: what the ledger refuses ends here: before RESET silently, after it by the end of the connection, which begins
        again with the records that are served.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from qanat.edge.push_session import Place, PushSession
from qanat.edge.refresh_ledger import (
    GIVE_UP_MS,
    READY_RETRY_MS,
    RESET_RETRY_MS,
    Ask,
    Move,
    Step,
    unfinished,
)
from qanat.model.ids import TopicPartition
from qanat.model.push_refreshes import PartitionRefresh, PushRefresh, RefreshState


class Stage(Enum):
    """How far one partition is at this subscriber."""

    NEW = auto()
    ASKED = auto()
    REPLAYING = auto()
    READYING = auto()
    SWITCHED = auto()
    """READY is acknowledged, the commit is under way."""
    COMMITTED = auto()


@dataclass(slots=True)
class Part:
    """One partition."""

    start: int
    end: Place
    attempt: int = 0
    stage: Stage = Stage.NEW
    is_written: bool = False
    """Whether the ledger knows of the stage."""
    asked_ms: int = 0
    """Since when RESET or READY has had no answer."""
    sent_ms: int | None = None
    """When it was sent last."""


@dataclass(frozen=True, slots=True)
class Write:
    """Write a step; report by `wrote`."""

    step: Step


@dataclass(frozen=True, slots=True)
class SendReset:
    """RESET of some partitions: each from its start to its end."""

    frame_id: int
    ranges: Mapping[TopicPartition, tuple[int, int]]
    retry: int


@dataclass(frozen=True, slots=True)
class SendReady:
    """READY of some partitions, with their ends."""

    frame_id: int
    ends: Mapping[TopicPartition, Place]
    retry: int


@dataclass(frozen=True, slots=True)
class End:
    """End the connection."""

    reason: str
    message: str


Act = Write | SendReset | SendReady | End


class RefreshTurn:
    """One refresh of one topic at one subscriber."""

    def __init__(self, session: PushSession, topic: str, refresh_id: str) -> None:
        self.id = refresh_id
        self.topic = topic
        self._session = session
        self.parts: dict[TopicPartition, Part] = {}
        self._frames: dict[int, tuple[Stage, dict[TopicPartition, int]]] = {}
        """The stage that each RESET and READY without an answer waits in, its partitions and their attempts."""
        self._resets = self._readies = 0
        self._end: End | None = None
        self._written: dict[TopicPartition, Part] = {}
        """What the step that is being written is about: a partition that comes back meanwhile is another part."""

    # Partitions come and go

    def add(self, found: Iterable[PartitionRefresh]) -> None:
        """The subscriber has these partitions, and their refresh is not over."""
        for one in found:
            at = TopicPartition(self.topic, one.partition)
            if at not in self.parts and at in self._session.cursors:
                self.parts[at] = Part(one.start, Place(one.end, one.end_epoch))
                self._session.hold(at)

    def revoked(self, at: TopicPartition) -> None:
        """Another member gets a partition; what READY has switched is still finished."""
        part = self.parts.get(at)
        if part is not None and part.stage not in (Stage.SWITCHED, Stage.COMMITTED):
            del self.parts[at]

    def lost(self, at: TopicPartition) -> None:
        """Another member has a partition."""
        self.parts.pop(at, None)

    def compare(self, entry: PushRefresh | None) -> None:
        """The ledger as it is known here: where the refresh is over, or another subscriber was asked, it ends."""
        for at, part in self.parts.items():
            one = None if entry is None or entry.id != self.id else entry.partition(at.partition)
            if part.stage is not Stage.NEW and (one is None or one.state.is_over or one.attempt > part.attempt):
                self._overtaken()

    def _overtaken(self) -> None:
        """The client still takes records for those of the refresh: only a new connection begins without it."""
        self._end = self._end or End("refresh-over", f"refresh {self.id} has ended, or goes on at another subscriber")

    def end(self) -> None:
        """End the connection with the next step."""
        self._overtaken()

    @property
    def is_alive(self) -> bool:
        return bool(self.parts) or self._end is not None

    # What to do

    def next(self, now_ms: int) -> Act | None:
        """What is to be done now."""
        if self._end is not None:
            return self._end
        if new := self._in(Stage.NEW):
            places = {at.partition: self._session.cursors[at].place for at in new}
            return self._write(Ask(self.id, places), new)
        for stage, state in ((Stage.COMMITTED, RefreshState.DONE), (Stage.REPLAYING, RefreshState.REPLAYING)):
            if moved := [at for at in self._in(stage) if not self.parts[at].is_written]:
                return self._move(state, moved)
        if overdue := self._overdue(now_ms):
            return self._move(RefreshState.GIVEN_UP, overdue)
        if due := self._due(Stage.ASKED, RESET_RETRY_MS, now_ms):
            return self._reset(due, now_ms)
        if ready := self._replayed():
            return self._move(RefreshState.READYING, ready)
        if due := self._due(Stage.READYING, READY_RETRY_MS, now_ms):
            return self._ready(due, now_ms)
        return None

    def _in(self, *stages: Stage) -> list[TopicPartition]:
        return [at for at, part in self.parts.items() if part.stage in stages]

    def _due(self, stage: Stage, retry_ms: int, now_ms: int) -> list[TopicPartition]:
        """All partitions of a stage where one of them is due: they are named together."""
        waiting = [at for at in self._in(stage) if self.parts[at].is_written]
        for at in waiting:
            sent_ms = self.parts[at].sent_ms
            if sent_ms is None or now_ms - sent_ms >= retry_ms:
                return waiting
        return []

    def _overdue(self, now_ms: int) -> list[TopicPartition]:
        waiting = [at for at in self._in(Stage.ASKED, Stage.READYING) if self.parts[at].is_written]
        return [at for at in waiting if now_ms - self.parts[at].asked_ms >= GIVE_UP_MS]

    def _replayed(self) -> list[TopicPartition]:
        """Partitions for READY: all that are replayed, once none is behind."""
        if self._in(Stage.NEW, Stage.ASKED):
            return []
        replaying = self._in(Stage.REPLAYING)
        return replaying if all(map(self._session.is_replayed, replaying)) else []

    def _reset(self, due: list[TopicPartition], now_ms: int) -> SendReset:
        frame_id = self._announce(Stage.ASKED, due, now_ms)
        retry, self._resets = self._resets, self._resets + 1
        self._session.told.update(dict.fromkeys(due, self.id))
        return SendReset(frame_id, {at: (self.parts[at].start, self.parts[at].end.offset) for at in due}, retry)

    def _ready(self, due: list[TopicPartition], now_ms: int) -> SendReady:
        frame_id = self._announce(Stage.READYING, due, now_ms)
        retry, self._readies = self._readies, self._readies + 1
        return SendReady(frame_id, {at: self._session.cursors[at].place for at in due}, retry)

    def _announce(self, stage: Stage, due: list[TopicPartition], now_ms: int) -> int:
        frame_id = self._session.announce()
        self._frames[frame_id] = stage, {at: self.parts[at].attempt for at in due}
        for at in due:
            self.parts[at].sent_ms = now_ms
        return frame_id

    # The ledger

    def _write(self, step: Step, about: Iterable[TopicPartition]) -> Write:
        self._written = {at: self.parts[at] for at in about}
        return Write(step)

    def _move(self, state: RefreshState, about: list[TopicPartition]) -> Write:
        return self._write(Move(self.id, state, {at.partition: self.parts[at].attempt for at in about}), about)

    def wrote(self, write: Write, entry: PushRefresh | None, now_ms: int, ledger_ms: int) -> None:
        """A step is in the ledger, whose clock shows `ledger_ms`; None where it was refused."""
        about = [at for at, part in self._written.items() if self.parts.get(at) is part]
        self._written = {}
        match write.step:
            case Ask():
                self._asked(about, entry, now_ms, ledger_ms)
            case Move(_, RefreshState.GIVEN_UP, _) if entry is not None:
                self._end = End("refresh-given-up", f"no ACK of refresh {self.id} for {GIVE_UP_MS // 60_000} minutes")
            case _ if entry is None:
                self._overtaken()
            case Move(_, RefreshState.REPLAYING, _):
                for at in about:
                    self.parts[at].is_written = True
            case Move(_, RefreshState.READYING, _):
                self._readies = 0
                for at in about:
                    part = self.parts[at]
                    part.stage, part.is_written, part.sent_ms, part.asked_ms = Stage.READYING, True, None, now_ms
            case Move(_, RefreshState.DONE, _):
                for at in about:
                    del self.parts[at]
                    self._session.told.pop(at, None)
                    if at in self._session.cursors:
                        self._session.go_on(at)

    def _asked(self, about: list[TopicPartition], entry: PushRefresh | None, now_ms: int, ledger_ms: int) -> None:
        self._resets = 0
        for at in about:
            one = None if entry is None else entry.partition(at.partition)
            if one is None:
                # It was over before RESET was sent, or others are faster: what is not over is found again.
                del self.parts[at]
                self._session.release(at)
                continue
            part = self.parts[at]
            part.stage, part.attempt, part.is_written = Stage.ASKED, one.attempt, True
            part.end = Place(one.end, one.end_epoch)
            part.asked_ms = now_ms - max(ledger_ms - one.asked_ms, 0)

    # Answers of the client

    def answered(self, frame_id: int, reached: Mapping[TopicPartition, Place]) -> list[TopicPartition]:
        """An ACK of RESET or READY; `reached` is how far its generation is. Returns what is replayed from now on."""
        replayed = []
        stage, attempts = self._frames.pop(frame_id, (Stage.NEW, {}))
        for at, attempt in attempts.items():
            part = self.parts.get(at)
            if part is None or part.attempt != attempt or part.stage is not stage:
                continue
            if part.stage is Stage.ASKED:
                place = reached.get(at, Place(part.start))
                if not part.start <= place.offset <= part.end.offset:
                    place = Place(part.start)
                self._session.replay(at, place, part.end)
                part.stage, part.is_written = Stage.REPLAYING, False
                replayed.append(at)
            elif part.stage is Stage.READYING:
                part.stage, part.is_written = Stage.SWITCHED, False
                self._session.switched(at)
        return replayed

    def commit_ended(self, places: Iterable[TopicPartition], *, is_durable: bool) -> None:
        """A commit is durable, or failed: then READY is sent again while the partition is this subscriber's."""
        for at in places:
            part = self.parts.get(at)
            if part is None or part.stage is not Stage.SWITCHED:
                continue
            if is_durable:
                part.stage = Stage.COMMITTED
            elif at in self._session.cursors:
                part.stage, part.is_written = Stage.READYING, True
            else:
                del self.parts[at]


def turn_of(
    turn: RefreshTurn | None, session: PushSession, topic: str, entry: PushRefresh | None
) -> RefreshTurn | None:
    """The turn of a topic after a look at the ledger: a new one, or with new partitions, or about to end."""
    if turn is not None:
        turn.compare(entry)
        if turn.parts and (entry is None or entry.id != turn.id):
            return turn
    owned = [at for at in session.cursors if at.topic == topic]
    found = unfinished(entry, [at.partition for at in owned])
    if entry is not None and found:
        if turn is None or turn.id != entry.id:
            turn = RefreshTurn(session, topic, entry.id)
        turn.add(found)
    for at in owned:
        told = session.told.get(at)
        if told is not None and (turn is None or told != turn.id or at not in turn.parts):
            # It came back after its refresh had ended elsewhere: nothing of it leaves any more.
            session.hold(at)
            turn = turn or RefreshTurn(session, topic, told)
            turn.end()
    return turn if turn is not None and turn.is_alive else None
