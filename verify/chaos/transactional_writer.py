"""A transactional producer on librdkafka, with some aborts: `python -m verify.chaos.transactional_writer …`

A transaction whose end has no known result is of unknown outcome, as are its records; another producer with the same
transactional id continues.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from random import Random

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from verify.chaos.client import FINISH_S, Orders, Pace, Reports, Task, acknowledged_offset
from verify.chaos.journal import Journal, value_of
from verify.clusters.history import Outcome

_RECORDS_MAX = 100
_PER_SECOND = 5
"""Transactions a second, at least, as long as they have fewer records than the maximum."""
_ABORTED = 0.1
_STEP_S = 20.0
_TRANSACTION_MS = 30_000
_OPTIONS = {
    "acks": "all",
    "linger.ms": 5,
    "transaction.timeout.ms": _TRANSACTION_MS,
    "socket.timeout.ms": 10_000,
    "reconnect.backoff.max.ms": 1000,
    "metadata.recovery.strategy": "none",
    "log_level": 0,
}


class Writer:
    """One transactional id, used by one producer after another."""

    def __init__(self, task: Task) -> None:
        self._task = task
        ((self._topic, self._partitions),) = task.topics.items()
        self.orders, self.reports = Orders(), Reports()
        self._journal = Journal(task.folder, task.name)
        self._random = Random(task.name)
        self._records = max(2, min(_RECORDS_MAX, task.rate // _PER_SECOND))
        self._pace = Pace(task.rate, self._records)
        self._number = self._transaction = 0
        self._over_at_s: float | None = None

    def write(self) -> None:
        while not self._is_over:
            try:
                self._run_producer()
            except KafkaException as fault:
                self.reports.send(note=f"{self._task.name}: another producer after {fault}")
                time.sleep(0.2)
        self._journal.close()
        self.reports.send_final()

    @property
    def _is_over(self) -> bool:
        return self.orders.is_over

    def _run_producer(self) -> None:
        options = {"bootstrap.servers": self._task.bootstrap, "transactional.id": self._task.name, **_OPTIONS}
        producer = Producer(options)
        self._persist(partial(producer.init_transactions, _STEP_S))
        while not self._is_over:
            if not self._pace.due():
                time.sleep(0.02)
            else:
                self._pace.sent(self._records)
                self._transact(producer)
            self.reports.send_periodically()

    def _persist(self, step: Callable[[], object]) -> None:
        """Repeat a step as long as librdkafka calls its error retriable."""
        deadline = time.monotonic() + FINISH_S
        while True:
            try:
                step()
            except KafkaException as fault:
                error: KafkaError = fault.args[0]
                if not error.retriable() or time.monotonic() > deadline:
                    raise
            else:
                return

    def _transact(self, producer: Producer) -> None:
        number, is_committed = self._transaction, self._random.random() >= _ABORTED
        self._transaction += 1
        places = self._random.sample(range(self._partitions), min(2, self._partitions))
        rows = {self._number + place: places[place % len(places)] for place in range(self._records)}
        self._number += self._records
        offsets: dict[int, int] = {}
        outcome = Outcome.UNKNOWN
        try:
            outcome = self._try(producer, rows, offsets, is_committed)
        finally:
            for one, at in rows.items():
                self._journal.note_send(self._topic, at, one, outcome, offsets.get(one, -1), number)
        if outcome is Outcome.DONE:
            for one, offset in offsets.items():
                self.reports.reach(rows[one], offset)
            self.reports.count(self._records)

    def _try(self, producer: Producer, rows: dict[int, int], offsets: dict[int, int], is_committed: bool) -> Outcome:
        producer.begin_transaction()
        try:
            for one, at in rows.items():
                value = value_of(self._task.writer, one)
                producer.produce(self._topic, value, partition=at, on_delivery=partial(_record_offset, offsets, one))
            if is_committed:
                self._persist(partial(producer.commit_transaction, _STEP_S))
                return Outcome.DONE
            producer.flush(_STEP_S)  # Aborted records should be in the log, for consumers to skip.
        except KafkaException as fault:
            error: KafkaError = fault.args[0]
            if not error.txn_requires_abort():
                raise
        self._persist(partial(producer.abort_transaction, _STEP_S))
        return Outcome.FAILED


def _record_offset(offsets: dict[int, int], number: int, fault: KafkaError | None, message: Message) -> None:
    if fault is None:
        offsets[number] = acknowledged_offset(message)


if __name__ == "__main__":
    Writer(Task.parse(sys.argv[1:])).write()
