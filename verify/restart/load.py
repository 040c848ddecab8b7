"""The load on a broker that is killed: clients of librdkafka, in threads, until `stop`.

Two producers with acks=all (one idempotent), a consumer group that commits what it has read, and a client that creates
topics. Every acknowledgement goes into the ledger; failed requests are retried, as clients do.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from random import Random
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from verify.restart.ledger import IDEMPOTENT, Acknowledged, Committed, Ledger, value_of

TOPIC = "load"
GROUP = "readers"
PARTITIONS = 3
SEGMENT_BYTES = 64 * 1024
_TIMEOUT_S = 60.0
_BURST_MAX = 20
_QUIET: dict[str, Any] = {
    "log_level": 0,
    "error_cb": lambda _: None,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
}
_TOPIC_EVERY_S = 0.2


class Load:
    """The threads. `with Load(address, ledger, seed):`; an exception of a thread is raised at the end."""

    def __init__(self, address: str, ledger: Ledger, seed: int, *, pause_s: float = 0.0) -> None:
        """`pause_s` is the producers' pause between two bursts."""
        self._client = {"bootstrap.servers": address, **_QUIET}
        self._ledger = ledger
        self._seed = seed
        self._pause_s = pause_s
        self._over = threading.Event()
        self._faults: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._run, args=(act,), name=f"load-{number}", daemon=True)
            for number, act in enumerate((self._produce_once, self._produce_plainly, self._consume, self._make_topics))
        ]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop all clients; raises the first exception of one."""
        self._over.set()
        for thread in self._threads:
            thread.join(_TIMEOUT_S)
        if self._faults:
            raise self._faults[0]

    def _run(self, act: Callable[[], None]) -> None:
        try:
            act()
        except BaseException as fault:  # noqa: BLE001 - `stop` raises it
            self._faults.append(fault)

    def _produce_once(self) -> None:
        self._produce(f"{IDEMPOTENT}{self._seed}", {"enable.idempotence": True})

    def _produce_plainly(self) -> None:
        self._produce(f"plain{self._seed}", {"enable.idempotence": False})

    def _produce(self, sender: str, settings: dict[str, Any]) -> None:
        random = Random(f"{self._seed} {sender}")
        producer = Producer({**self._client, "acks": "all", "linger.ms": 0, **settings})
        numbers = [0] * PARTITIONS
        while not self._over.is_set():
            partition = random.randrange(PARTITIONS)
            for _ in range(random.randrange(1, _BURST_MAX)):
                value = value_of(sender, partition, numbers[partition])
                producer.produce(TOPIC, value, partition=partition, on_delivery=self._on_delivery)
                numbers[partition] += 1
            while len(producer) and not self._over.is_set():
                producer.poll(0.05)
            self._over.wait(self._pause_s)
        producer.purge()
        producer.flush(_TIMEOUT_S)

    def _on_delivery(self, fault: KafkaError | None, message: Message) -> None:
        if fault is None:
            topic, partition, offset, value = message.topic(), message.partition(), message.offset(), message.value()
            assert isinstance(topic, str)
            assert isinstance(value, bytes)
            assert partition is not None
            known = offset if offset is not None and offset >= 0 else None
            self._ledger.records.append(Acknowledged(topic, partition, known, value))

    def _consume(self) -> None:
        consumer = Consumer(
            {
                **self._client,
                "group.id": GROUP,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 45_000,
            }
        )
        consumer.subscribe([TOPIC])
        random = Random(f"{self._seed} consumer")
        try:
            while not self._over.is_set():
                messages = [one for one in consumer.consume(random.randrange(1, 30), 0.05) if one.error() is None]
                if messages:
                    self._commit(consumer, messages)
        finally:
            consumer.close()

    def _commit(self, consumer: Consumer, messages: list[Message]) -> None:
        ends = {one.partition(): (one.offset() or 0) + 1 for one in messages}
        for partition, offset in ends.items():
            key = (GROUP, TOPIC, partition or 0)
            self._ledger.sent_commits[key] = max(offset, self._ledger.sent_commits.get(key, 0))
        offsets = [TopicPartition(TOPIC, partition or 0, offset) for partition, offset in ends.items()]
        try:
            committed = consumer.commit(offsets=offsets, asynchronous=False) or []
        except KafkaException:
            return  # The broker is down, or this is no longer a member: the records are read again.
        for one in committed:
            if one.error is None:
                self._ledger.commits.append(Committed(GROUP, one.topic, one.partition, one.offset))

    def _make_topics(self) -> None:
        admin = AdminClient(self._client)
        number = 0
        while not self._over.wait(_TOPIC_EVERY_S + self._pause_s):
            name = f"made-{self._seed}-{number}"
            number += 1
            try:
                admin.create_topics([NewTopic(name, 1, 1)], request_timeout=5)[name].result(_TIMEOUT_S)
            except KafkaException:
                continue
            self._ledger.topics.append(name)


def make_load_topic(address: str, ledger: Ledger) -> None:
    """Create the topic of all clients, with small segments, so that many are sealed."""
    admin = AdminClient({"bootstrap.servers": address, **_QUIET})
    topic = NewTopic(TOPIC, PARTITIONS, 1, config={"segment.bytes": str(SEGMENT_BYTES)})
    admin.create_topics([topic])[TOPIC].result(_TIMEOUT_S)
    ledger.topics.append(TOPIC)


def wait_for_acknowledgements(ledger: Ledger, records: int, commits: int) -> None:
    """Return once the load has got so many further acknowledgements."""
    start, deadline = ledger.mark(), time.monotonic() + _TIMEOUT_S
    while True:
        now = ledger.mark()
        if now.records - start.records >= records and now.commits - start.commits >= commits:
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"in {_TIMEOUT_S:.0f} s the load got from {start} to {now} only")
        time.sleep(0.005)
