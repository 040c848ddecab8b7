"""An app in a thread of the test, and lists that can be waited for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from qanat.client import App
from qanat.testing import EmbeddedBroker


@contextmanager
def running(app: App) -> Iterator[threading.Thread]:
    """The app in a thread, stopped at the end; raises what ended it."""
    faults: list[BaseException] = []

    def serve() -> None:
        try:
            asyncio.run(app.serve())
        except BaseException as fault:  # noqa: BLE001 - raised below
            faults.append(fault)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield thread
    finally:
        app.stop()
        thread.join(40)
        assert not thread.is_alive()
    if faults:
        raise faults[0]


def produce(
    broker: EmbeddedBroker,
    topic: str,
    *values: bytes,
    partitions: int = 2,
    key: bytes | None = None,
    partition: int = -1,
) -> None:
    if topic not in broker.topics():
        broker.create_topic(topic, partitions)
    producer: Any = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for value in values:
        producer.produce(topic, value, key, partition)
    assert producer.flush(20) == 0


def committed(broker: EmbeddedBroker, group: str, topic: str, partitions: int = 2) -> list[int]:
    """The group's offsets, as another client reads them."""
    admin: Any = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, one) for one in range(partitions)])
    found = admin.list_consumer_group_offsets([wanted])[group].result(60)
    return [max(one.offset, 0) for one in found.topic_partitions]


class Seen(list[Any]):
    """A list that can be waited for."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = threading.Condition()

    def add(self, one: object) -> None:
        with self._changed:
            self.append(one)
            self._changed.notify_all()

    def wait_for(self, n: int, timeout_s: float = 30) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self) >= n, timeout_s), f"{len(self)} of {n}: {self[-20:]}"
