"""Refreshes of one subscriber: what `edge.refresh_turn` decides is written to the ledger and sent as RESET and READY.

Rule: one task per subscriber does one thing at a time; it runs only while there is something to do.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from qanat.broker.metadata.push_refreshes import wall_ms
from qanat.edge.push_session import Place, PushSession
from qanat.edge.refresh_turn import Act, End, RefreshTurn, SendReady, SendReset, Stage, Write, turn_of
from qanat.model.errors import QanatError
from qanat.model.ids import TopicPartition
from qanat.wire.push.control import Position, Range, Ready, Reset, encode_control
from qanat.wire.push.frames import FrameType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from qanat.broker.metadata.push_refreshes import PushRefreshes
    from qanat.servers.push.ports import PushClient
    from qanat.wire.push.control import Ack

_PAUSE_S = 0.5
"""Pause after a write of the ledger that failed."""


class Replays(Protocol):
    """The subscription, which sends the records again."""

    def replay(self, partitions: Iterable[TopicPartition]) -> None: ...

    def pump(self) -> None: ...


class SubscriberRefreshes:
    """All refreshes of one subscriber; usually none."""

    __slots__ = ("_connection", "_group", "_is_changed", "_ledger", "_session", "_subscription", "_task", "_turns")

    def __init__(
        self, connection: PushClient, session: PushSession, ledger: Callable[[], PushRefreshes], group: str, to: Replays
    ) -> None:
        self._connection = connection
        self._session = session
        self._ledger = ledger
        self._group = group
        self._subscription = to
        self._turns: dict[str, RefreshTurn] = {}
        self._task: asyncio.Task[None] | None = None
        self._is_changed = False

    def __bool__(self) -> bool:
        return bool(self._turns)

    def id_of(self, at: TopicPartition) -> str:
        """The refresh that a partition is replayed for; empty where there is none."""
        cursor, turn = self._session.cursors.get(at), self._turns.get(at.topic)
        return turn.id if turn is not None and cursor is not None and cursor.is_replaying else ""

    def look(self, topics: Iterable[str]) -> None:
        """Compare with the ledger: refreshes begin, partitions join them, and others are over."""
        ledger = self._ledger()
        for topic in topics:
            turn = turn_of(self._turns.get(topic), self._session, topic, ledger.find(topic, self._group))
            if turn is not None:
                self._turns[topic] = turn
            else:
                self._turns.pop(topic, None)
        if self._turns:
            self.go_on()

    def go_on(self) -> None:
        """Do what is to be done."""
        self._is_changed = True
        if self._turns and (self._task is None or self._task.done()):
            self._task = self._connection.spawn(self._run())

    # What the client and the group do

    def acknowledge(self, frame_id: int, ack: Ack | None) -> None:
        """An ACK of RESET or READY."""
        rows = () if ack is None else ack.positions
        reached = {TopicPartition(one.topic, one.partition): Place(one.offset, one.epoch) for one in rows}
        for turn in self._turns.values():
            self._subscription.replay(turn.answered(frame_id, reached))
        self.go_on()

    def commit_ended(self, places: Iterable[TopicPartition], *, is_durable: bool) -> None:
        places = list(places)
        for turn in self._turns.values():
            turn.commit_ended(places, is_durable=is_durable)
        self.go_on()

    def revoked(self, at: TopicPartition) -> None:
        if (turn := self._turns.get(at.topic)) is not None:
            turn.revoked(at)

    def lost(self, at: TopicPartition) -> None:
        if (turn := self._turns.get(at.topic)) is not None:
            turn.lost(at)

    @property
    def summary(self) -> str:
        """How far they are, in a line."""
        return ", ".join(f"{turn.id}: {self._state(turn)}" for turn in self._turns.values() if turn.parts)

    def _state(self, turn: RefreshTurn) -> str:
        done = total = 0
        for at, part in turn.parts.items():
            cursor = self._session.cursors.get(at)
            total += max(part.end.offset - part.start, 0)
            if part.stage in (Stage.NEW, Stage.ASKED) or cursor is None:
                continue
            done += min(max(cursor.place.offset - part.start, 0), max(part.end.offset - part.start, 0))
        stages = {part.stage: 0 for part in turn.parts.values()}
        name = next((_NAMES[stage] for stage in _NAMES if stage in stages), "")
        return f"{name} {done}/{total}"

    # One thing after another

    async def _run(self) -> None:
        while self._turns:
            self._is_changed = acted = False
            for topic, turn in list(self._turns.items()):
                act = turn.next(self._connection.now_ms())
                if act is not None:
                    acted = True
                    await self._do(turn, act)
                if not turn.is_alive and self._turns.get(topic) is turn:
                    del self._turns[topic]
                    self._subscription.pump()
            if not acted and not self._is_changed:
                return

    async def _do(self, turn: RefreshTurn, act: Act) -> None:
        match act:
            case Write(step):
                try:
                    entry = await self._ledger().write(turn.topic, self._group, step)
                except QanatError:
                    await asyncio.sleep(_PAUSE_S)  # The store does not answer; the same step comes again.
                    return
                turn.wrote(act, entry, self._connection.now_ms(), wall_ms())
                self._subscription.pump()
            case SendReset(frame_id, ranges, retry):
                rows = [Range(at.partition, start, end) for at, (start, end) in ranges.items()]
                reset = Reset("refresh", turn.topic, refresh=turn.id, ranges=rows, retry=retry)
                self._connection.send(FrameType.RESET, frame_id, encode_control(reset))
            case SendReady(frame_id, ends, retry):
                places = [Position(at.topic, at.partition, one.offset, one.epoch) for at, one in ends.items()]
                self._connection.send(
                    FrameType.READY, frame_id, encode_control(Ready(turn.id, turn.topic, places, retry))
                )
            case End(reason, message):
                turn.parts.clear()
                self._connection.end(reason, message)
                self._turns.clear()


_NAMES = {
    Stage.NEW: "waiting",
    Stage.ASKED: "resetting",
    Stage.REPLAYING: "replaying",
    Stage.READYING: "readying",
    Stage.SWITCHED: "switching",
    Stage.COMMITTED: "switching",
}
