"""An idempotent producer on librdkafka: `python -m verify.chaos.librdkafka_writer …`

A value is produced once. Where the producer gives up, the outcome of its unsettled records is unknown, and another
producer continues with other values.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from itertools import count

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from verify.chaos.client import FINISH_S, Orders, Pace, Reports, Task, acknowledged_offset
from verify.chaos.journal import Journal, value_of
from verify.clusters.history import Outcome

_RUN = 50
"""Consecutive records to one partition, so that batches are large enough."""
_OPTIONS = {
    "enable.idempotence": True,
    "acks": "all",
    "linger.ms": 5,
    "message.timeout.ms": 600_000,
    "socket.timeout.ms": 10_000,
    "reconnect.backoff.max.ms": 1000,
    "metadata.recovery.strategy": "none",
    "log_level": 7,
    "debug": "eos",
}
"""The log says why the producer drains a partition or raises its epoch: both explain doubled records."""


class TrackedProducer:
    """One producer, and its unsettled records."""

    def __init__(self, task: Task, journal: Journal, reports: Reports) -> None:
        self._task, self._journal, self._reports = task, journal, reports
        ((self._topic, self._partitions),) = task.topics.items()
        self._producer = Producer({"bootstrap.servers": task.bootstrap, **_OPTIONS})
        self.unsettled: dict[int, int] = {}

    def send(self, number: int) -> bool:
        """Produce a value; returns whether the producer had room. Raises `KafkaException` where it has given up."""
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
            offset = acknowledged_offset(message)
            self._journal.note_send(self._topic, at, number, Outcome.DONE, offset)
            self._reports.reach(at, offset)
            self._reports.count(1)
        else:
            self._reports.send(note=f"{self._task.name}: a record was given up: {fault}")
            self._journal.note_send(self._topic, at, number, Outcome.UNKNOWN)

    def abandon(self) -> None:
        """Record all unsettled records as of unknown outcome."""
        for number, at in self.unsettled.items():
            self._journal.note_send(self._topic, at, number, Outcome.UNKNOWN)
        self.unsettled.clear()


def write(task: Task) -> None:
    orders, pace, reports, journal = Orders(), Pace(task.rate, _RUN), Reports(), Journal(task.folder, task.name)
    producer, numbers = TrackedProducer(task, journal, reports), count()
    while not orders.is_over:
        try:
            for _ in range(pace.due() if len(producer.unsettled) < task.rate else 0):
                if not producer.send(next(numbers)):
                    break
                pace.sent(1)
        except KafkaException as fault:
            reports.send(note=f"{task.name}: another producer after {fault}")
            producer.abandon()
            producer = TrackedProducer(task, journal, reports)
        producer.poll(0.02)
        reports.send_periodically()
    deadline = time.monotonic() + FINISH_S
    while producer.unsettled and time.monotonic() < deadline:
        producer.poll(0.1)
        reports.send_periodically()
    if producer.unsettled:
        reports.send(anomaly=f"{task.name}: {len(producer.unsettled)} records were not settled {FINISH_S:.0f} s after")
    producer.abandon()
    journal.close()
    reports.send_final()


if __name__ == "__main__":
    write(Task.parse(sys.argv[1:]))
