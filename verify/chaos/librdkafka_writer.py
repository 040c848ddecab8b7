"""Writes with librdkafka, idempotently. `python -m verify.chaos.librdkafka_writer …`

A value is given to the producer once and never again. Where the producer gives up, what it had is of unknown outcome,
and another producer goes on with other values.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from itertools import count

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from verify.chaos.client import FINISH_S, Orders, Pace, Reports, Task
from verify.chaos.journal import Journal, value_of
from verify.clusters.history import Outcome

_RUN = 50
"""Records in a row to one partition: batches are worth sending then."""
_OPTIONS = {
    "enable.idempotence": True,
    "acks": "all",
    "linger.ms": 5,
    "message.timeout.ms": 600_000,
    "socket.timeout.ms": 10_000,
    "reconnect.backoff.max.ms": 1000,
    "metadata.recovery.strategy": "none",
    "log_level": 0,
}


class Life:
    """One producer, and what it has not settled."""

    def __init__(self, task: Task, journal: Journal, reports: Reports) -> None:
        self._task, self._journal, self._reports = task, journal, reports
        ((self._topic, self._partitions),) = task.topics.items()
        self._producer = Producer({"bootstrap.servers": task.bootstrap, **_OPTIONS})
        self.unsettled: dict[int, int] = {}

    def send(self, number: int) -> bool:
        """Hand a value over; whether the producer had room for it. Raises `KafkaException` where it has given up."""
        at = number // _RUN % self._partitions
        self.unsettled[number] = at
        try:
            value = value_of(self._task.writer, number)
            self._producer.produce(self._topic, value, partition=at, on_delivery=partial(self._settle, number))
        except BufferError:
            del self.unsettled[number]
            return False
        return True

    def poll(self, seconds: float) -> None:
        self._producer.poll(seconds)

    def _settle(self, number: int, fault: KafkaError | None, message: Message) -> None:
        at = self.unsettled.pop(number, None)
        if at is None:
            return
        if fault is None:
            offset = message.offset() or 0
            self._journal.note_send(self._topic, at, number, Outcome.DONE, offset)
            self._reports.reach(at, offset)
            self._reports.count(1)
        else:
            self._reports.tell(note=f"{self._task.name}: a record was given up: {fault}")
            self._journal.note_send(self._topic, at, number, Outcome.UNKNOWN)

    def abandon(self) -> None:
        """Whatever is not settled never will be."""
        for number, at in self.unsettled.items():
            self._journal.note_send(self._topic, at, number, Outcome.UNKNOWN)
        self.unsettled.clear()


def write(task: Task) -> None:
    orders, pace, reports, journal = Orders(), Pace(task.rate, _RUN), Reports(), Journal(task.folder, task.name)
    life, numbers = Life(task, journal, reports), count()
    while not orders.is_over:
        try:
            for _ in range(pace.due() if len(life.unsettled) < task.rate else 0):
                if not life.send(next(numbers)):
                    break
                pace.sent(1)
        except KafkaException as fault:
            reports.tell(note=f"{task.name}: another producer after {fault}")
            life.abandon()
            life = Life(task, journal, reports)
        life.poll(0.02)
        reports.tell_now_and_then()
    deadline = time.monotonic() + FINISH_S
    while life.unsettled and time.monotonic() < deadline:
        life.poll(0.1)
        reports.tell_now_and_then()
    if life.unsettled:
        reports.tell(anomaly=f"{task.name}: {len(life.unsettled)} records were not settled {FINISH_S:.0f} s after")
    life.abandon()
    journal.close()
    reports.tell_in_the_end()


if __name__ == "__main__":
    write(Task.parse(sys.argv[1:]))
