"""A producer that writes without pause while a cluster changes, and records its acknowledgements.

It uses librdkafka with idempotence and acks=all; every value is unique.
"""

from __future__ import annotations

import threading
import time
from itertools import pairwise
from typing import Self

from confluent_kafka import Consumer, KafkaError, Message, Producer

ANY_PARTITION = -1
_TIMEOUT_S = 120.0


class SteadyWriter:
    """Writes to one topic from a thread of its own; a context."""

    def __init__(self, bootstrap: str, topic: str, partitions: int = 0, pause_s: float = 0.002) -> None:
        """`partitions`: write to so many of them in turn; without it, the client chooses the partition."""
        self._topic = topic
        self._partitions = partitions
        self._pause_s = pause_s
        self.acknowledged: list[tuple[float, bytes, int]] = []
        """The time by the steady clock, the value and the partition of each."""
        self.errors: list[str] = []
        """Final errors."""
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0, "log_level": 0}
        )
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _write(self) -> None:
        number = 0
        while not self._is_over.is_set():
            try:
                partition = number % self._partitions if self._partitions else ANY_PARTITION
                self._producer.produce(self._topic, b"%d" % number, partition=partition, on_delivery=self._on_delivery)
                number += 1
            except BufferError:
                self._producer.poll(0.1)
            self._producer.poll(0)
            time.sleep(self._pause_s)
        if self._producer.flush(_TIMEOUT_S):
            self.errors.append("records were not acknowledged in time")

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acknowledged.append((time.monotonic(), message.value() or b"", message.partition() or 0))
        else:
            self.errors.append(error.str())

    def wait_for_more(self, count: int = 50) -> None:
        """Return once so many further records are acknowledged."""
        wanted, deadline = len(self.acknowledged) + count, time.monotonic() + _TIMEOUT_S
        while len(self.acknowledged) < wanted:
            assert time.monotonic() < deadline, f"nothing is acknowledged any more; {self.errors[:3]}"
            time.sleep(0.02)

    def longest_gap_s(self, since: float) -> float:
        """The longest time between two acknowledgements of a partition, from the last one before `since` on."""
        times: dict[int, list[float]] = {}
        for at, _, partition in self.acknowledged:
            known = times.setdefault(partition, [at])
            if at <= since:
                known[0] = at
            elif at != known[0]:
                known.append(at)
        return max((later - earlier for known in times.values() for earlier, later in pairwise(known)), default=0.0)

    def values(self) -> list[bytes]:
        return [value for _, value, _ in self.acknowledged]


def read_all(bootstrap: str, topic: str, count: int, **settings: str) -> list[bytes]:
    """All values from the start, until there are so many different ones or the time is up."""
    options = {"bootstrap.servers": bootstrap, "group.id": "readers", "auto.offset.reset": "earliest", **settings}
    consumer = Consumer(options)
    consumer.subscribe([topic])
    seen: list[bytes] = []
    deadline = time.monotonic() + _TIMEOUT_S
    while len(set(seen)) < count and time.monotonic() < deadline:
        seen += [one.value() or b"" for one in consumer.consume(1000, 0.5) if one.error() is None]
    consumer.close()
    return seen
