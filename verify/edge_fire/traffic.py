"""A producer at the root, and a consumer at every level, on the host: no cut separates them from their broker."""

from __future__ import annotations

import threading
import time
from array import array
from collections import Counter

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

_LOOK_S = 0.1


class Writer(threading.Thread):
    """Writes numbers, each once, at a steady rate. `acknowledged` are those that the root has promised."""

    def __init__(self, address: str, topic: str, partitions: int, per_second: float) -> None:
        super().__init__(daemon=True)
        self._producer = Producer(
            {"bootstrap.servers": address, "enable.idempotence": True, "acks": "all", "message.timeout.ms": 600_000}
        )
        self._topic, self._partitions, self._pause_s = topic, partitions, 1 / per_second
        self.acknowledged = bytearray()
        """By number; 1 where it is promised."""
        self.produced_s = array("d")
        """By number: when it was handed to the producer."""
        self._is_over = threading.Event()

    def run(self) -> None:
        due = time.monotonic()
        while not self._is_over.is_set():
            number = len(self.produced_s)
            self.produced_s.append(time.monotonic())
            self.acknowledged.append(0)
            value = b"%d" % number
            self._producer.produce(self._topic, value, partition=number % self._partitions, on_delivery=self._settled)
            self._producer.poll(0)
            due += self._pause_s
            self._is_over.wait(max(0.0, due - time.monotonic()))
        self._producer.flush(120)

    def _settled(self, fault: KafkaError | None, message: Message) -> None:
        if fault is None:
            self.acknowledged[int(message.value() or b"0")] = 1

    def end(self) -> None:
        self._is_over.set()
        self.join()


class Reader(threading.Thread):
    """Reads a topic from its beginning at one level."""

    def __init__(self, address: str, topic: str, partitions: int, group: str) -> None:
        super().__init__(daemon=True)
        options = {
            "bootstrap.servers": address,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "reconnect.backoff.max.ms": 500,
            "fetch.wait.max.ms": 100,
        }
        self._consumer = Consumer(options)
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        self.arrived_s: dict[int, float] = {}
        self.again: Counter[int] = Counter()
        """Numbers that came more than once."""
        self.disorder = 0
        """Records that came after a later one of their partition."""
        self.faults: Counter[str] = Counter()
        self._last: dict[int, int] = {}
        self._is_over = threading.Event()

    def run(self) -> None:
        while not self._is_over.is_set():
            for message in self._consumer.consume(500, _LOOK_S):
                fault = message.error()
                if fault is not None:
                    self.faults[str(fault.code())] += 1
                    continue
                self._take(message)
        self._consumer.close()

    def _take(self, message: Message) -> None:
        number, partition = int(message.value() or b"0"), message.partition() or 0
        if number in self.arrived_s:
            self.again[number] += 1
            return
        self.arrived_s[number] = time.monotonic()
        self.disorder += number < self._last.get(partition, -1)
        self._last[partition] = number

    def end(self) -> None:
        self._is_over.set()
        self.join()
