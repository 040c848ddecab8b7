"""One seed: appends, deliveries, kills and cuts in an order that the seed draws, then a healthy end and the checks."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from qanat.edge.push_dialogue import WrongFrameError
from qanat.model.ids import TopicPartition
from qanat.wire.push.control import Mode
from verify.push.broker import BrokerConnection, SimBroker, Wire
from verify.push.consumers import SimConsumer
from verify.push.model import TOPIC, Durable, ModelLog, PushMismatchError

STEPS = 600
_HEALING_ROUNDS = 120


class PushRun:
    """The world of one seed."""

    def __init__(self, seed: int) -> None:
        self._random = Random(f"push {seed}")
        draw = self._random
        self.durable = Durable({TopicPartition(TOPIC, number): ModelLog() for number in range(draw.randint(1, 3))})
        self.broker: SimBroker | None = SimBroker(self.durable)
        self.now_ms = 1_000
        credit = draw.choice([1, 2, 5, 50])
        modes = [draw.choice(list(Mode)) for _ in range(draw.randint(1, 4))]
        self.consumers = [SimConsumer(mode, credit, self.durable, draw) for mode in modes]
        self.faults: dict[str, int] = {}
        self._steps: list[tuple[Callable[[], None], int]] = [
            (self._append, 12),
            (self._deliver, 40),
            (self._process, 25),
            (self._acknowledge, 12),
            (self._commit, 4),
            (self._finish_commit, 10),
            (self._connect, 8),
            (self._wait, draw.choice([0, 3])),
            (self._kill_consumer, draw.choice([0, 1, 3])),
            (self._kill_broker, draw.choice([0, 1, 2])),
            (self._cut, draw.choice([0, 1, 2])),
            (self._elect_unclean, draw.choice([0, 0, 1])),
        ]

    def run(self) -> None:
        """Raise `PushMismatchError` where anything does not hold."""
        acts, weights = zip(*self._steps, strict=True)
        try:
            for _ in range(STEPS):
                self._random.choices(acts, weights)[0]()
            self._heal()
        except WrongFrameError as fault:
            raise PushMismatchError(f"a frame of a well-behaved side is refused: {fault}") from fault
        self._check()

    # Steps

    def _append(self) -> None:
        self.durable.append(self._random.choice(list(self.durable.logs)))
        if self.broker is not None:
            self.broker.pump(self.now_ms)

    def _connect(self) -> None:
        idle = [one for one in self.consumers if one.wire is None]
        if self.broker is None:
            self.broker = SimBroker(self.durable)
        elif idle:
            consumer = self._random.choice(idle)
            consumer.is_up = True
            wire = Wire()
            self.broker.accept(wire, self.now_ms)
            consumer.connect(wire, self.now_ms)

    def _deliver(self) -> None:
        consumer = self._random.choice(self.consumers)
        wire = consumer.wire
        if wire is None or wire.is_cut:
            return
        self.now_ms += self._random.randint(0, 3)
        connection = self._end_of(wire)
        if wire.to_broker and connection is not None and self.broker is not None and self._random.random() < 0.5:
            self.broker.received(connection, wire.to_broker.popleft(), self.now_ms)
        elif wire.to_client:
            consumer.received(wire.to_client.popleft(), self.now_ms)
        elif wire.is_closed or connection is None:
            consumer.disconnected()

    def _end_of(self, wire: Wire) -> BrokerConnection | None:
        if self.broker is None:
            return None
        return next((one for one in self.broker.connections if one.wire is wire), None)

    def _process(self) -> None:
        self._random.choice(self.consumers).process(self.now_ms)

    def _acknowledge(self) -> None:
        self._random.choice(self.consumers).acknowledge(self.now_ms)

    def _commit(self) -> None:
        self._random.choice(self.consumers).commit(self.now_ms)

    def _finish_commit(self) -> None:
        """A commit that is under way becomes durable, or the next one begins."""
        if self.broker is None:
            return
        for connection in self.broker.connections:
            session = connection.session
            if session is not None and session.has_commits:
                if session._committing or self._random.random() < 0.5:
                    self.broker.finish_commit(connection)
                else:
                    session.next_commit()

    def _wait(self) -> None:
        self.now_ms += self._random.choice([500, 5_000, 12_000, 35_000])
        self._tick()

    def _tick(self) -> None:
        if self.broker is not None:
            self.broker.tick(self.now_ms)
        for consumer in self.consumers:
            consumer.tick(self.now_ms)
        for connection in list(self.broker.connections) if self.broker is not None else ():
            if connection.wire.is_closed and self.broker is not None:
                self.broker.closed(connection, self.now_ms)

    # Faults

    def _note(self, fault: str) -> None:
        self.faults[fault] = self.faults.get(fault, 0) + 1

    def _kill_consumer(self) -> None:
        consumer = self._random.choice(self.consumers)
        wire = consumer.wire
        consumer.kill()
        self._note("kill of a consumer")
        if wire is not None:
            connection = self._end_of(wire)
            if connection is not None and self.broker is not None and self._random.random() < 0.7:
                self.broker.closed(connection, self.now_ms)
            else:
                wire.is_cut = True

    def _kill_broker(self) -> None:
        if self.broker is None:
            return
        self._note("kill of the broker")
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
            self.broker.truncated(self.now_ms)

    # The end

    def _heal(self) -> None:
        """No more faults: everything must arrive."""
        for consumer in self.consumers:
            if consumer.wire is not None and consumer.wire.is_cut:
                consumer.wire.is_closed = True
                consumer.disconnected()
        for _ in range(_HEALING_ROUNDS):
            self.now_ms += 1_000
            for _ in range(len(self.consumers) + 1):
                self._connect()
            for consumer in self.consumers:
                self._exchange(consumer)
            self._finish_commit()
            self._tick()

    def _exchange(self, consumer: SimConsumer) -> None:
        for _ in range(60):
            wire = consumer.wire
            if wire is None:
                return
            connection = self._end_of(wire)
            if wire.to_client:
                consumer.received(wire.to_client.popleft(), self.now_ms)
            elif wire.to_broker and connection is not None and self.broker is not None:
                self.broker.received(connection, wire.to_broker.popleft(), self.now_ms)
            elif wire.is_closed or connection is None:
                consumer.disconnected()
                return
            consumer.process(self.now_ms)
            consumer.acknowledge(self.now_ms)

    def _check(self) -> None:
        values = [value for log in self.durable.logs.values() for _, value in log.records]
        modes = {consumer.mode for consumer in self.consumers}
        if Mode.LOG in modes:
            _require_none("processed by the group", [one for one in values if one not in self.durable.processed])
            for at, log in self.durable.logs.items():
                if log.end and self.durable.commits.get(at, (0, 0))[0] != log.end:
                    raise PushMismatchError(f"{at} ends at {log.end}, the commit is {self.durable.commits.get(at)}")
        if Mode.QUEUE in modes:
            _require_none("settled", [one for one in values if one not in self.durable.settled])
        for consumer in self.consumers:
            for at, log in self.durable.logs.items() if consumer.mode is Mode.ALL else ():
                if consumer.store[at] != [value for _, value in log.records]:
                    raise PushMismatchError(f"{at}: a store of mode all is not the log")


def _require_none(what: str, missing: list[int]) -> None:
    if missing:
        raise PushMismatchError(f"{len(missing)} records were never {what}: {missing[:5]}")
