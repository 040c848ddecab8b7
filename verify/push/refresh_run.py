"""One seed of refreshes: kills of either side in every state, cuts, truncation, rebalances; then a healthy end."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from qanat.edge.push_dialogue import WrongFrameError
from qanat.edge.refresh_ledger import Cancel
from qanat.model.ids import TopicPartition
from qanat.model.push_refreshes import RefreshState
from verify.push.broker import Wire
from verify.push.model import TOPIC, ModelLog, PushMismatchError
from verify.push.refresh_broker import Member, RefreshBroker
from verify.push.refresh_consumer import StoreConsumer
from verify.push.refresh_model import RefreshDurable, Store

STEPS = 700
_HEALING_ROUNDS = 150


class RefreshRun:
    """The world of one seed."""

    def __init__(self, seed: int) -> None:
        self._random = draw = Random(f"refresh {seed}")
        partitions = [TopicPartition(TOPIC, number) for number in range(draw.randint(1, 3))]
        self.durable = RefreshDurable({at: ModelLog() for at in partitions})
        self.now_ms = 1_000
        is_shared = draw.random() < 0.5
        store = Store(partitions, is_shared=is_shared)
        self._forgets = not is_shared and draw.random() < 0.5
        self.stores = [store]
        self.consumers = [StoreConsumer(store, draw.choice([1, 2, 5, 50]), draw) for _ in range(3 if is_shared else 1)]
        self.broker: RefreshBroker | None = RefreshBroker(self.durable, draw)
        self.faults: dict[str, int] = {}
        self._steps: list[tuple[Callable[[], None], int]] = [
            (self._append, 12),
            (self._deliver, 45),
            (self._process, 35),
            (self._acknowledge, 12),
            (self._finish_commit, 10),
            (self._connect, 8),
            (self._advance, 25),
            (self._refresh, draw.choice([2, 6])),
            (self._wait, draw.choice([0, 3])),
            (self._tell, 4),
            (self._move_partitions, draw.choice([0, 2])),
            (self._cancel, draw.choice([0, 0, 1, 4])),
            (self._kill_consumer, draw.choice([0, 1, 4])),
            (self._kill_broker, draw.choice([0, 1, 4])),
            (self._cut, draw.choice([0, 1, 2])),
            (self._elect_unclean, draw.choice([0, 0, 1])),
        ]

    def run(self) -> None:
        """Raise `PushMismatchError` where anything does not hold."""
        acts, weights = zip(*self._steps, strict=True)
        try:
            for _ in range(STEPS):
                self._random.choices(acts, weights)[0]()
                if self.broker is not None:
                    self.broker.require_done()
            self._heal()
        except WrongFrameError as fault:
            raise PushMismatchError(f"a frame of a well-behaved side is refused: {fault}") from fault
        self._check()

    # Steps

    def _append(self) -> None:
        self.durable.append(self._random.choice(list(self.durable.logs)))
        if self.broker is not None:
            self.broker.pump(self.now_ms)

    def _refresh(self) -> None:
        """An operator begins a refresh: usually of everything, from the first record."""
        is_whole = self._random.random() < 0.7
        starts = {at: 0 if is_whole else self._random.randint(0, log.end) for at, log in self.durable.logs.items()}
        if self.durable.begin(starts, self.now_ms):
            self._note("refresh")

    def _cancel(self) -> None:
        entry = self.durable.entry
        if entry is not None and not entry.is_over:
            self._note("cancelled refresh")
            self.durable.write(Cancel(entry.id), self.now_ms)

    def _connect(self) -> None:
        idle = [one for one in self.consumers if one.wire is None]
        if self.broker is None:
            self.broker = RefreshBroker(self.durable, self._random)
        elif idle:
            consumer = self._random.choice(idle)
            wire = Wire()
            self.broker.accept(wire, consumer.store, self.now_ms)
            consumer.connect(wire, self.now_ms)

    def _deliver(self) -> None:
        consumer = self._random.choice(self.consumers)
        wire = consumer.wire
        if wire is None or wire.is_cut:
            return
        self.now_ms += self._random.randint(0, 3)
        member = self._member_of(wire)
        if wire.to_broker and member is not None and self.broker is not None and self._random.random() < 0.5:
            self.broker.received(member, wire.to_broker.popleft(), self.now_ms)
        elif wire.to_client:
            consumer.received(wire.to_client.popleft(), self.now_ms)
        elif wire.is_closed or member is None:
            consumer.disconnected()

    def _member_of(self, wire: Wire) -> Member | None:
        if self.broker is None:
            return None
        return next((one for one in self.broker.members if one.wire is wire), None)

    def _process(self) -> None:
        self._random.choice(self.consumers).process(self.now_ms)

    def _acknowledge(self) -> None:
        self._random.choice(self.consumers).acknowledge(self.now_ms)

    def _advance(self) -> None:
        """One step of a refresh at a member: a write of the ledger, or a frame."""
        if self.broker is None or not self.broker.members:
            return
        member = self._random.choice(self.broker.members)
        self.broker.look(member)
        state = self._state_of(member)
        if self.broker.step(member, self.now_ms) and state:
            self._note(f"step after {state}")

    def _state_of(self, member: Member) -> str:
        return (
            "" if member.turn is None else ",".join({part.stage.name.lower(): 0 for part in member.turn.parts.values()})
        )

    def _finish_commit(self) -> None:
        if self.broker is None:
            return
        for member in self.broker.members:
            session = member.session
            if session is not None and session.has_commits:
                if self._random.random() < 0.1:
                    self._note("failed commit")
                    self.broker.fail_commit(member)
                elif session._committing or self._random.random() < 0.5:
                    self.broker.finish_commit(member)
                else:
                    session.next_commit()

    def _finish_commits(self) -> None:
        for member in self.broker.members if self.broker is not None else ():
            if member.session is not None and member.session.has_commits and self.broker is not None:
                self.broker.finish_commit(member)

    def _tell(self) -> None:
        if self.broker is not None:
            self.broker.tell_zombies()

    def _move_partitions(self) -> None:
        if self.broker is not None:
            self._note("rebalance")
            self.broker.rebalance(self.now_ms)

    def _wait(self) -> None:
        self.now_ms += self._random.choice([500, 5_000, 12_000, 35_000])
        self._tick()

    def _tick(self) -> None:
        if self.broker is not None:
            self.broker.tick(self.now_ms)
        for consumer in self.consumers:
            consumer.tick(self.now_ms)
        for member in list(self.broker.members) if self.broker is not None else ():
            if member.wire.is_closed and self.broker is not None:
                self.broker.closed(member, self.now_ms)

    # Faults

    def _note(self, what: str) -> None:
        self.faults[what] = self.faults.get(what, 0) + 1

    def _states(self) -> str:
        """The states of the refresh under way, for the count of what was hit when."""
        entry = self.durable.entry
        if entry is None or entry.is_over:
            return "no refresh"
        return min(one.state.value for one in entry.partitions if not one.state.is_over)

    def _kill_consumer(self) -> None:
        consumer = self._random.choice(self.consumers)
        wire = consumer.wire
        if wire is None:
            return
        self._note(f"kill of a consumer, {self._states()}")
        consumer.disconnected()
        if self._forgets:
            consumer.store.lose_unfinished()
        member = self._member_of(wire)
        if member is not None and self.broker is not None and self._random.random() < 0.7:
            self.broker.closed(member, self.now_ms)
        else:
            wire.is_cut = True

    def _kill_broker(self) -> None:
        if self.broker is None:
            return
        self._note(f"kill of the broker, {self._states()}")
        for consumer in self.consumers:
            if consumer.wire is not None:
                consumer.wire.is_closed = True
                if self._random.random() < 0.5:
                    consumer.disconnected()
        self.broker = None

    def _cut(self) -> None:
        consumer = self._random.choice(self.consumers)
        if consumer.wire is not None:
            self._note("cut")
            consumer.wire.is_cut = True

    def _elect_unclean(self) -> None:
        self._note("unclean election")
        self.durable.truncate(self._random.choice(list(self.durable.logs)), self._random.randint(1, 4))
        if self.broker is not None:
            self.broker.truncated()
            self.broker.pump(self.now_ms)

    # The end

    def _heal(self) -> None:
        """No more faults: everything must arrive, and every refresh must end."""
        for consumer in self.consumers:
            if consumer.wire is not None and consumer.wire.is_cut:
                consumer.wire.is_closed = True
                consumer.disconnected()
        for consumer in self.consumers:
            consumer.is_sound = True
        for _ in range(_HEALING_ROUNDS):
            self.now_ms += 1_000
            for _ in range(len(self.consumers) + 1):
                self._connect()
            for consumer in self.consumers:
                self._exchange(consumer)
            if self.broker is not None:
                self.broker.tell_zombies()
                for member in list(self.broker.members):
                    self.broker.look(member)
                    self._rest(member)
                self._finish_commits()
                self.broker.require_done()
            self._tick()

    def _rest(self, member: Member) -> None:
        """Do all that is to be done for a member's refresh now."""
        for _ in range(100):
            if self.broker is None or not self.broker.step(member, self.now_ms):
                return
        raise PushMismatchError("a refresh does not come to rest")

    def _exchange(self, consumer: StoreConsumer) -> None:
        for _ in range(60):
            wire = consumer.wire
            if wire is None:
                return
            member = self._member_of(wire)
            if wire.to_client:
                consumer.received(wire.to_client.popleft(), self.now_ms)
            elif wire.to_broker and member is not None and self.broker is not None:
                self.broker.received(member, wire.to_broker.popleft(), self.now_ms)
            elif wire.is_closed or member is None:
                consumer.disconnected()
                return
            consumer.process(self.now_ms)
            consumer.acknowledge(self.now_ms)

    def _check(self) -> None:
        entry = self.durable.entry
        if entry is not None and not entry.is_over:
            raise PushMismatchError(f"{entry.id} never ended: {[one.state.value for one in entry.partitions]}")
        for at, log in self.durable.logs.items():
            served = self.stores[0].served[at]
            if served.rows != log.records[served.start :]:
                raise PushMismatchError(f"{at}: what is served from {served.start} on is not the log")
            if log.end and served.start < log.end and self.durable.commits.get(at, (0, 0))[0] != log.end:
                raise PushMismatchError(f"{at} ends at {log.end}, the commit is {self.durable.commits.get(at)}")
            one = None if entry is None else entry.partition(at.partition)
            if one is not None and entry is not None and one.state is RefreshState.DONE and served.id != entry.id:
                raise PushMismatchError(f"{at}: {entry.id} is done, {served.id or 'the first'} is served")
