"""librdkafka in few words, for tests that need some client or other."""

from __future__ import annotations

import time
from typing import Protocol

from confluent_kafka import Consumer, Producer

SECONDS = 60


class Reachable(Protocol):
    @property
    def bootstrap_servers(self) -> str: ...


def producer(broker: Reachable, **options: object) -> Producer:
    return Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0, "log_level": 0, **options})


def produce(
    broker: Reachable, topic: str, *values: bytes, partition: int = 0, timestamp: int = 0, **options: object
) -> None:
    """Deliver values to one partition, in order; without a timestamp they have today's."""
    sender = producer(broker, **options)
    for value in values:
        sender.produce(topic, value, partition=partition, timestamp=timestamp)
    assert sender.flush(SECONDS) == 0, "not everything was delivered"


def consumer(broker: Reachable, group: str, **options: object) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "heartbeat.interval.ms": 50,
            "fetch.wait.max.ms": 20,
            "log_level": 0,
            **options,
        }
    )


def consume(broker: Reachable, topic: str, count: int, group: str) -> list[bytes | None]:
    """That many values through a group; with 0, only join it."""
    reader = consumer(broker, group)
    reader.subscribe([topic])
    found: list[bytes | None] = []
    deadline = time.monotonic() + SECONDS
    while (len(found) < count or not reader.assignment()) and time.monotonic() < deadline:
        message = reader.poll(0.05)
        if message is not None and message.error() is None:
            found.append(message.value())
    reader.close()
    return found
