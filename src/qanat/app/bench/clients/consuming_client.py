"""A consuming client: it reads assigned partitions, or those that its group assigns.

Records of a live run carry the time at which they should be sent; their latency ends here.
"""

from __future__ import annotations

import threading
import time
from collections import Counter

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from qanat.app.bench.clients.latencies import Latencies
from qanat.app.bench.clients.worker_messages import STAMP_BYTES, ConsumeTask, Outcome, Progress, librdkafka_reason

_AT_ONCE = 1000
_FIRST_WAIT_S = 0.1
_WAIT_S = 0.01
"""librdkafka waits this long for the rest of a chunk: at the end of a topic, for nothing."""
_MARK_BYTES = 8


class ConsumingClient:
    """`prepare`, then `run`; `progress` at any time from any thread."""

    def __init__(self, task: ConsumeTask, stop: threading.Event) -> None:
        self._task = task
        self._stop = stop
        self._mark = bytes.fromhex(task.stamp)
        self._latencies = Latencies()
        self._records = self._size_bytes = 0
        self._errors: Counter[str] = Counter()
        self._complaint = self._reason = ""
        self._at_end: set[int] = set()
        self._began_s = self._last_sign_s = time.monotonic()
        self._first_s: float | None = None
        self._is_warming = not task.warmup.is_nothing and not task.is_live
        self._is_time_up = False
        self._consumer: Consumer | None = None

    def prepare(self) -> None:
        """Connect a client of a live run before the run starts; all others connect within the measured time."""
        if self._task.is_live:
            self._consumer = self._connected()

    def _connected(self) -> Consumer:
        consumer = Consumer({**self._task.settings, "error_cb": self._store_reason})
        if self._task.is_member:
            consumer.subscribe([self._task.topic], on_revoke=lambda *_: self._at_end.clear())
        else:
            consumer.assign([TopicPartition(self._task.topic, *at) for at in self._task.offsets.items()])
        return consumer

    def run(self) -> Outcome:
        self._began_s = self._last_sign_s = time.monotonic()
        try:
            consumer = self._consumer or self._connected()
            try:
                while not self._is_over():
                    self._take(consumer.consume(self._at_once(), _FIRST_WAIT_S if self._first_s is None else _WAIT_S))
            finally:
                # Time spent waiting for records that do not exist does not count.
                ended_s = time.monotonic() if self._is_time_up else self._last_sign_s
                consumer.close()
        except KafkaException as fault:
            self._complaint, ended_s = librdkafka_reason(fault), time.monotonic()
            self._errors[self._complaint] += 1
        return Outcome(
            self._began_s,
            ended_s,
            self._records,
            self._size_bytes,
            dict(self._errors),
            self._latencies.encoded(),
            self._latencies.largest_us,
            first_record_s=self._first_s,
            complaint=self._complaint,
        )

    def progress(self) -> Progress:
        return Progress(self._records, self._size_bytes, self._errors.total())

    def _at_once(self) -> int:
        """The chunk size: librdkafka waits until it has so many, so records with latencies are taken one by one."""
        if self._first_s is None:
            return 1
        if self._is_warming and self._task.warmup.records:
            return max(1, min(_AT_ONCE, self._task.warmup.records - self._records))
        if self._task.amount.records is None:
            return 1 if self._task.is_live else _AT_ONCE
        return max(1, min(_AT_ONCE, self._task.amount.records - self._records))

    def _is_over(self) -> bool:
        now_s, amount = time.monotonic(), self._task.amount
        if self._is_warming:
            self._end_warmup(now_s)
        elif amount.records is not None and self._records >= amount.records:
            return True
        elif amount.seconds is not None:
            self._is_time_up = now_s - self._began_s >= amount.seconds
        # A client of a live run is stopped when no more records follow.
        is_finite = not self._task.is_live
        is_read_out = is_finite and not self._task.is_member and len(self._at_end) == len(self._task.offsets)
        if is_finite and not is_read_out and now_s - self._last_sign_s > self._task.timeout_s:
            self._complaint = self._complaint or self._reason or f"no record came for {self._task.timeout_s:g} s"
        return self._stop.is_set() or self._is_time_up or is_read_out or bool(self._complaint)

    def _end_warmup(self, now_s: float) -> None:
        warmup = self._task.warmup
        is_enough = self._records >= warmup.records if warmup.records is not None else False
        if warmup.seconds is not None:
            is_enough = now_s - self._began_s >= warmup.seconds
        if is_enough:
            self._is_warming = False
            self._records = self._size_bytes = 0
            self._began_s = now_s

    def _take(self, messages: list[Message]) -> None:
        now_ns, before = time.monotonic_ns(), self._records
        for message in messages:
            error = message.error()
            if error is not None:
                self._failed(error, message)
            elif self._mark:
                self._take_stamped(message.value() or b"", now_ns)
            else:
                self._records += 1
                self._size_bytes += len(message)
        if self._records > before:
            self._last_sign_s = now_ns / 1e9
            if self._first_s is None:
                self._first_s = self._last_sign_s - self._began_s

    def _take_stamped(self, value: bytes, now_ns: int) -> None:
        if value[:_MARK_BYTES] != self._mark:
            return
        intended_ns = int.from_bytes(value[_MARK_BYTES:STAMP_BYTES], "big")
        if intended_ns:
            self._records += 1
            self._size_bytes += len(value)
            self._latencies.record((now_ns - intended_ns) // 1000)

    def _failed(self, error: KafkaError, message: Message) -> None:
        if error.code() == KafkaError._PARTITION_EOF:
            self._at_end.add(message.partition() or 0)
            return
        self._errors[error.str()] += 1
        if error.fatal() or not error.retriable():
            self._complaint = error.str()

    def _store_reason(self, error: KafkaError) -> None:
        self._reason = error.str()
