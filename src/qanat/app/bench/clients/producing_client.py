"""A producing client: without a limit, or at a rate.

At a rate, record n should be sent n/rate seconds after the start, and its latency counts from there, even if the client
sends it late. Without a limit, no record is late: latency counts from the call of `produce`.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from qanat.app.bench.clients.latencies import Latencies
from qanat.app.bench.clients.worker_messages import (
    STAMP_BYTES,
    Amount,
    Outcome,
    ProduceTask,
    Progress,
    librdkafka_reason,
)

_CHUNK = 500
_POOL_BYTES = 4 * 1024 * 1024
_STRIDE = 1_000_003
"""Prime, so that every place of the pool is used."""
_POLL_S = 0.05
_FLUSH_AFTER_STOP_S = 5.0
_PURGED = (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)
_NS = 1_000_000_000


class ProducingClient:
    """`prepare`, then `run`; `progress` at any time from any thread."""

    def __init__(self, task: ProduceTask, stop: threading.Event) -> None:
        self._task = task
        self._stop = stop
        self._latencies, self._commit_latencies = Latencies(), Latencies()
        self._acknowledged = self._commits = 0
        self._errors: Counter[str] = Counter()
        self._complaint = ""
        self._last_sign_s = time.monotonic()
        """When a record was last acknowledged, or none was pending."""
        self._last_record_s: float | None = None
        self._payloads = Payloads(task.size)
        self._producer = Producer(
            {
                **task.settings,
                "on_delivery": self._delivered,
                "error_cb": self._store_reason,
            }
        )
        self._reason = ""
        self._next_commit_s = 0.0

    def prepare(self) -> None:
        """Connect, and send the warm-up."""
        self._producer.list_topics(self._task.topic, timeout=self._task.timeout_s)
        if self._task.transaction_s:
            self._producer.init_transactions(self._task.timeout_s)
        if not self._task.warmup.is_nothing:
            self._send(self._task.warmup, is_counted=False)
            self._latencies.reset()
            self._commit_latencies.reset()
            self._acknowledged = self._commits = 0
            self._last_record_s = None

    def run(self) -> Outcome:
        began_s = time.monotonic()
        self._send(self._task.amount, is_counted=True)
        return Outcome(
            began_s,
            self._last_record_s or time.monotonic(),
            self._acknowledged,
            self._acknowledged * self._task.size,
            dict(self._errors),
            self._latencies.encoded(),
            self._latencies.largest_us,
            self._commits,
            self._commit_latencies.encoded(),
            self._commit_latencies.largest_us,
            complaint=self._complaint,
        )

    def progress(self) -> Progress:
        return Progress(self._acknowledged, self._acknowledged * self._task.size, self._errors.total())

    # Sending

    def _send(self, amount: Amount, *, is_counted: bool) -> None:
        try:
            self._begin_transaction()
            with self._reports_taken() if self._task.rate else nullcontext():
                if self._task.rate:
                    self._keep_pace(amount, is_counted)
                else:
                    self._send_flood(amount)
                self._finish()
        except KafkaException as fault:
            self._errors[librdkafka_reason(fault)] += 1
            self._complaint = librdkafka_reason(fault)

    def _send_flood(self, amount: Amount) -> None:
        sent = 0
        end_s = None if amount.seconds is None else time.monotonic() + amount.seconds
        while (amount.records is None or sent < amount.records) and not self._is_over(end_s):
            count = _CHUNK if amount.records is None else min(_CHUNK, amount.records - sent)
            for number in range(sent, sent + count):
                self._hand_over(self._payloads.of(number), None)
            sent += count
            self._producer.poll(0)
            self._commit_if_due()

    @contextmanager
    def _reports_taken(self) -> Iterator[None]:
        """A thread polls delivery reports, so that none waits until the next record is due."""
        is_done = threading.Event()

        def take() -> None:
            while not is_done.is_set():
                self._producer.poll(_POLL_S)

        thread = threading.Thread(target=take, name="reports")
        thread.start()
        try:
            yield
        finally:
            is_done.set()
            thread.join()

    def _keep_pace(self, amount: Amount, is_counted: bool) -> None:
        rate, interval_ns = self._task.rate, _NS / self._task.rate
        total = amount.records
        if amount.seconds is not None:
            total = max(1, round(amount.seconds * rate))
        began_ns, number = time.monotonic_ns(), 0
        end_s = None if amount.seconds is None else time.monotonic() + amount.seconds + self._task.timeout_s
        while (total is None or number < total) and not self._is_over(end_s):
            due = int((time.monotonic_ns() - began_ns) / interval_ns) + 1
            # Overdue records go in chunks, so that a stop is noticed.
            due = min(due, number + _CHUNK) if total is None else min(due, number + _CHUNK, total)
            for one in range(number, due):
                intended_ns = began_ns + int(one * interval_ns)
                self._hand_over(self._stamped(one, intended_ns if is_counted else 0), intended_ns)
            number = due
            self._commit_if_due()
            pause_s = (began_ns + number * interval_ns - time.monotonic_ns()) / _NS
            if pause_s > 0 and (total is None or number < total):
                time.sleep(min(pause_s, _POLL_S))

    def _hand_over(self, payload: bytes, intended_ns: int | None) -> None:
        report = None if intended_ns is None else partial(self._delivered_late, intended_ns)
        while True:
            try:
                if report is None:
                    self._producer.produce(self._task.topic, payload)
                else:
                    self._producer.produce(self._task.topic, payload, on_delivery=report)
                return
            except BufferError:
                self._producer.poll(_POLL_S)
                if self._is_over(None):
                    return

    def _is_over(self, end_s: float | None) -> bool:
        now_s = time.monotonic()
        if not len(self._producer):
            self._last_sign_s = now_s
        elif now_s - self._last_sign_s > 2 * self._task.timeout_s and not self._complaint:
            self._complaint = self._reason or f"nothing was acknowledged for {2 * self._task.timeout_s:g} s"
        return self._stop.is_set() or bool(self._complaint) or (end_s is not None and now_s >= end_s)

    def _finish(self) -> None:
        """Wait until every record is acknowledged or has failed."""
        if self._task.transaction_s:
            self._commit(is_last=True)
            return
        while len(self._producer) and not self._is_over(None):
            self._producer.flush(_POLL_S * 4)
        if len(self._producer):
            self._producer.flush(_FLUSH_AFTER_STOP_S)
            self._producer.purge()
            self._producer.flush(1)

    # Transactions

    def _begin_transaction(self) -> None:
        if self._task.transaction_s:
            self._producer.begin_transaction()
            self._next_commit_s = time.monotonic() + self._task.transaction_s

    def _commit_if_due(self) -> None:
        if self._task.transaction_s and time.monotonic() >= self._next_commit_s:
            self._commit(is_last=False)

    def _commit(self, *, is_last: bool) -> None:
        began_ns = time.monotonic_ns()
        self._producer.commit_transaction(2 * self._task.timeout_s)
        self._commit_latencies.record((time.monotonic_ns() - began_ns) // 1000)
        self._commits += 1
        if not is_last:
            self._begin_transaction()

    # Reports

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed(error)
            return
        self._acknowledged += 1
        self._latencies.record(int((message.latency() or 0.0) * 1_000_000))
        self._last_sign_s = self._last_record_s = time.monotonic()

    def _delivered_late(self, intended_ns: int, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed(error)
            return
        now_ns = time.monotonic_ns()
        self._acknowledged += 1
        self._latencies.record((now_ns - intended_ns) // 1000)
        self._last_sign_s = self._last_record_s = now_ns / _NS

    def _failed(self, error: KafkaError) -> None:
        if error.code() in _PURGED:
            return
        self._errors[error.str()] += 1
        if error.code() == KafkaError._MSG_TIMED_OUT or error.fatal():
            self._complaint = self._reason or error.str()

    def _store_reason(self, error: KafkaError) -> None:
        self._reason = error.str()

    def _stamped(self, number: int, intended_ns: int) -> bytes:
        payload = self._payloads.of(number)
        if not self._task.stamp:
            return payload
        return bytes.fromhex(self._task.stamp) + intended_ns.to_bytes(8, "big") + payload[STAMP_BYTES:]


class Payloads:
    """Random letters, as Kafka's own tool sends them: compressible, but with few repetitions between records."""

    def __init__(self, size: int) -> None:
        letters = bytes(ord("A") + number % 26 for number in range(256))
        self._pool = random.Random(size).randbytes(_POOL_BYTES + size).translate(letters)
        self._size = size

    def of(self, number: int) -> bytes:
        start = number * _STRIDE % _POOL_BYTES
        return self._pool[start : start + self._size]
